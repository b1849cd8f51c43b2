"""Checks an untrusted lock before pip installs it with network access.

Allowed are packages by name, installed as wheels from the package sources of the base's lock. A path, an address, an
option or another file is refused: it runs code during the installation, reads files, or sends requests elsewhere
(https://pip.pypa.io/en/stable/reference/requirements-file-format/).

Each line must match by itself. So it does not matter how an installer joins lines.
"""

from __future__ import annotations

import re

# A name with extras and versions, a marker, and hashes, or only hashes. `===` accepts any text as a version.
_NAMED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?[ ]?\(?(?:(?!===)[=<>!~]{1,2}[ ]?[A-Za-z0-9._*+-]+[, ]*)*\)?"
    r"(?:[ ]?;(?:(?! -)[A-Za-z0-9_.'\"<>=!~(), -])+)?(?:[ ]+--hash=sha(?:256|384|512):[0-9a-fA-F]+)*(?:[ ]*\\)?"
)
_HASHES = re.compile(r"(?:[ ]*--hash=sha(?:256|384|512):[0-9a-fA-F]+)+(?:[ ]*\\)?")
_COMMENT = re.compile(r"(?:^|\s)#.*(?<!\\)$")
# An installer treats a name with such an ending as a file (pip 25, _internal/utils/filetypes.py, ARCHIVE_EXTENSIONS).
_ARCHIVE = re.compile(r"\.(?:whl|zip|gz|tgz|tar|bz2|tbz|xz|txz|tlz|lz|lzma)(?![A-Za-z0-9])", re.IGNORECASE)
# Options for package sources. They must be the same in the base, and must not be folders.
_SOURCE = re.compile(r"(?:--index-url|--extra-index-url|--find-links|-i|-f)[ =][ ]*https?://\S+|--pre|--prefer-binary")
# The limits of a line in characters, and of the lines. A lock has some tens of hashes for each of its packages.
_MAX_LINE = 2_000
_MAX_LINES = 100_000


def rejected_lines(text: str, trusted: str) -> list[str]:
    """Return the lines of a lock that must not be installed. `trusted` is the text of the base's lock."""
    lines, sources = text.splitlines(), {line.strip() for line in trusted.splitlines()}
    if len(lines) > _MAX_LINES:
        return [f"{len(lines)} lines, more than {_MAX_LINES}"]
    return [line for line in lines if not _is_safe(line, sources)]


def _is_safe(line: str, sources: set[str]) -> bool:
    if len(line) > _MAX_LINE:
        return False
    code = _COMMENT.sub("", line).strip()
    if not code or _HASHES.fullmatch(code):
        return True
    if _SOURCE.fullmatch(code):
        return code in sources
    return _NAMED.fullmatch(code) is not None and _ARCHIVE.search(code) is None
