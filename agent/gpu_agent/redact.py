"""Removes text that looks like a secret from everything that leaves the machine, as the last protection of secrets.

Redact a text before you truncate it, because half a secret no longer looks like a secret.
"""

from __future__ import annotations

import re

_GONE = "[redacted]"
_SECRETS = (
    # A complete key, and a truncated one.
    re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),
    # GitHub's tokens (docs.github.com, "About authentication to GitHub", token formats) and Google's access tokens.
    re.compile(r"\b(?:gh[pousr]_|github_pat_|ya29\.)[A-Za-z0-9_.-]+"),
    # Complete tokens directly after other text, and the format of GitHub's installation tokens until 2021.
    re.compile(r"(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}|\bv1\.[0-9a-f]{40}"),
    # Lines of base64 in JSON text, where each ends in a backslash and an n. The match starts only at the beginning of
    # such text. A start at each character would scan to the end each time.
    re.compile(r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{32,}\\n){2,}[A-Za-z0-9+/]*={0,2}"),
    # A JSON Web Token (up to three parts) or a JIT configuration, complete or truncated. A JSON map in base64 always
    # begins with eyI or eyJ.
    re.compile(r"(?<![A-Za-z0-9])ey[IJ][A-Za-z0-9+/_-]+={0,2}(?:\.[A-Za-z0-9_-]*){0,2}"),
    # A token that registers a runner: 29 capitals and digits, in the examples of docs.github.com, "REST API endpoints
    # for self-hosted runners". The agent's own messages contain nothing similar.
    re.compile(r"\b(?=[A-Z]*[0-9])(?=[0-9]*[A-Z])[A-Z0-9]{29}\b"),
)
# A run of base64 characters. It is a blob (a key, a token or other random data) unless it looks like a path.
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{64,}")
_BETWEEN_WORDS = re.compile(r"[/_=-]+")
_CHECKSUM = re.compile(r"[0-9a-fA-F]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "
# RFC 7468 uses 64 characters in each line of a key, and MIME's base64 (RFC 2045) uses 76. Other programs use fewer.
_KEY_LINE = range(32, 77)


class Lines:
    """Redacts consecutive lines. The last line of a key is short and recognizable only by the lines before it."""

    def __init__(self) -> None:
        self._in_key = False

    def redact(self, line: str) -> str:
        """Return the next line without text that looks like a secret."""
        bare = line.strip()
        is_base64 = bool(_BASE64.fullmatch(bare))
        if self._in_key and is_base64:
            self._in_key = len(bare) in _KEY_LINE
            return _GONE
        redacted = _GONE if is_base64 and len(bare) in _KEY_LINE and _is_random(bare) else _redact_line(line)
        if _KEY_ENDS in line:
            self._in_key = False
        elif _KEY_BEGINS in line or (is_base64 and len(bare) in _KEY_LINE and redacted != line):
            # Lines of other programs may come between the lines of a key. The next lines of base64 therefore count as
            # key lines until a short one, or until the end of the key.
            self._in_key = True
        return redacted


def redact(text: str) -> str:
    """Return the text without anything that looks like a key, a token or other random base64."""
    lines = Lines()
    return "\n".join(lines.redact(line) for line in _SECRETS[0].sub(_GONE, text).split("\n"))


def _redact_line(line: str) -> str:
    for pattern in _SECRETS:
        line = pattern.sub(_GONE, line)
    return _RUN.sub(lambda run: _GONE if _is_blob(run[0]) else run[0], line)


def _is_random(line: str) -> bool:
    """Return True if a line is random base64: with a digit, small letters, and as many capitals as in _is_blob."""
    capitals = sum(map(str.isupper, line))
    return capitals * 6 >= len(line) and any(map(str.isdigit, line)) and any(map(str.islower, line))


def _is_blob(run: str) -> bool:
    """Return True if the run is random base64, and False if it is a path of words with few capitals."""
    if len(run) > 200:
        return True
    parts = [part for part in _BETWEEN_WORDS.split(run) if not _CHECKSUM.fullmatch(part)]
    if any(len(part) >= 64 for part in parts):
        return True
    # In random base64 26 of 64 characters are capitals. One sixth of the shortest run is 4 standard deviations below
    # that.
    return sum(map(str.isupper, "".join(parts))) * 6 >= len(run)
