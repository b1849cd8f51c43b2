"""The last line of defence: what looks like a secret does not leave the machine, whatever wrote it."""

from __future__ import annotations

import re

_SECRETS = (
    # A key as a whole, and one that was cut off.
    re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),
    # A line of a key, as the serial port gets one line at a time: RFC 7468 fills its lines with 64 characters. 64 of
    # hexadecimal are a checksum.
    re.compile(r"(?<![\w+/=])(?![0-9a-f]{64}\b)[A-Za-z0-9+/]{64}={0,2}(?![\w+/=])"),
    # GitHub's tokens (docs.github.com, "About authentication to GitHub", token formats) and Google's access tokens.
    re.compile(r"\b(?:gh[pousr]_|github_pat_|ya29\.)[A-Za-z0-9_.-]+"),
    # A JSON Web Token: three parts, and the first is a JSON map, which always begins so.
    re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),
    # A JIT configuration and the like: no word of any language is that long.
    re.compile(r"[A-Za-z0-9+/_=-]{201,}"),
)


def redact(text: str) -> str:
    """The text without what looks like a key, a token or a blob."""
    for pattern in _SECRETS:
        text = pattern.sub("[redacted]", text)
    return text
