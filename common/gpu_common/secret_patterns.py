"""Patterns of secrets. Users may paste a secret into the wrong field, and reports are often logged.

The boot agent (gpu_agent.redact) and the policy pack (gpu_ci_policies.rules) run without this package. They have their
own patterns. tests/common/test_secret_patterns.py tests all of them with the same samples.
"""

from __future__ import annotations

import re

# https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/
GITHUB_TOKEN_PREFIX = re.compile(r"gh[opusr]_|github_pat_")

_TOKENS = (
    r"gh[opusr]_\w{4,}|github_pat_\w{4,}",
    r"ya29\.[\w.-]+",  # Google OAuth access token
    r"AIza[\w-]{10,}",  # Google API key
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}",  # AWS access key
    r"xox[abeprs]-[\w-]+",  # Slack
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
)
# Group 1 is a secret. Two of the patterns also match a run of characters without a secret. They skip it as a whole,
# because every start in it would end at the same character. Otherwise n characters would need n * n steps.
_PATTERNS = (
    re.compile(rf"({'|'.join(_TOKENS)})", re.DOTALL),
    re.compile(r"(eyJ[\w-]{10,}\.[\w.-]+)|eyJ[\w-]*"),  # JSON web token
    re.compile(r"(?<=://)(?:([^/\s:@]+:[^@\s]+)(?=@)|[^/\s:@]+:[^@\s]+)"),  # user and password in a URL
)


def redact(text: str) -> str:
    """Return the text with `[secret]` instead of everything that looks like a secret."""
    found = sorted(match.span(1) for each in _PATTERNS for match in each.finditer(text) if match[1])
    kept, at = [], 0
    for start, end in found:
        if start >= at:
            kept += [text[at:start], "[secret]"]
        at = max(at, end)
    return "".join([*kept, text[at:]])
