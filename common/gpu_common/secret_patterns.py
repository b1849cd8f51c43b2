"""What looks like a secret wherever it stands. People paste them one line too high, and a report is a log.

The boot agent (gpu_agent.redact) and the policy pack (gpu_ci_policies.tokens) run without this package and have
patterns of their own; tests/common/test_secret_patterns.py holds all of them to the same samples.
"""

from __future__ import annotations

import re

# https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/
GITHUB_TOKEN_PREFIX = re.compile(r"gh[opusr]_|github_pat_")

_TOKENS = (
    r"gh[opusr]_\w{4,}|github_pat_\w{4,}",
    r"ya29\.[\w.-]+",  # an OAuth access token of Google's
    r"AIza[\w-]{10,}",  # an API key of Google's
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}",  # an access key of AWS
    r"xox[abeprs]-[\w-]+",  # Slack
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
)
# Group 1 is a secret. What two of these match besides is a run in which no later start can find one, as all of its
# starts end at the same character. Without it each start would read the run again: n * n steps for n characters.
_PATTERNS = (
    re.compile(rf"({'|'.join(_TOKENS)})", re.DOTALL),
    re.compile(r"(eyJ[\w-]{10,}\.[\w.-]+)|eyJ[\w-]*"),  # a JSON web token
    re.compile(r"(?<=://)(?:([^/\s:@]+:[^@\s]+)(?=@)|[^/\s:@]+:[^@\s]+)"),  # user and password in a URL
)


def redact(text: str) -> str:
    """The text with `[secret]` in the place of what looks like one."""
    found = sorted(match.span(1) for each in _PATTERNS for match in each.finditer(text) if match[1])
    kept, at = [], 0
    for start, end in found:
        if start >= at:
            kept += [text[at:start], "[secret]"]
        at = max(at, end)
    return "".join([*kept, text[at:]])
