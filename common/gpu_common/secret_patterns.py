"""What looks like a secret wherever it stands. People paste them one line too high, and a report is a log.

The boot agent (gpu_agent.redact) and the policy pack (gpu_ci_policies.tokens) run without this package and have
patterns of their own; tests/common/test_secret_patterns.py holds all of them to the same samples.
"""

from __future__ import annotations

import re

# https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/
GITHUB_TOKEN_PREFIX = re.compile(r"gh[opusr]_|github_pat_")

_PATTERNS = (
    r"gh[opusr]_\w{4,}|github_pat_\w{4,}",
    r"ya29\.[\w.-]+",  # an OAuth access token of Google's
    r"AIza[\w-]{10,}",  # an API key of Google's
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}",  # an access key of AWS
    r"xox[abeprs]-[\w-]+",  # Slack
    r"eyJ[\w-]{10,}\.[\w.-]+",  # a JSON web token
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    r"(?<=://)[^/\s:@]+:[^@\s]+(?=@)",  # user and password in a URL
)
_SECRET = re.compile("|".join(_PATTERNS), re.DOTALL)


def redact(text: str) -> str:
    """The text with `[secret]` in the place of what looks like one."""
    return _SECRET.sub("[secret]", text)
