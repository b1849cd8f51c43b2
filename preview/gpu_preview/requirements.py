"""What a lock may name where nobody trusts it: packages by name, as wheels, from where the base gets its own.

A path, an address or a source distribution runs code of its own while it is installed, and installing has the network
(https://pip.pypa.io/en/stable/reference/requirements-file-format/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash=[A-Za-z0-9]+:[0-9a-fA-F]+")
# To an installer a name that ends so is a file (pip 25, _internal/utils/filetypes.py, ARCHIVE_EXTENSIONS).
_ARCHIVES = (".whl", ".zip", ".gz", ".tgz", ".tar", ".bz2", ".tbz", ".xz", ".txz", ".tlz", ".lz", ".lzma")
# Where packages come from; only as the base has it.
_SOURCES = ("-i ", "--index-url", "--extra-index-url", "--find-links", "-f ", "--pre", "--prefer-binary")


def refused(text: str, trusted: str) -> list[str]:
    """The lines that must not be installed from; `trusted` is the file as the base has it."""
    known = set(_lines(trusted))
    return [line for line in _lines(text) if not (_is_named(line) or (line in known and line.startswith(_SOURCES)))]


def _lines(text: str) -> Iterator[str]:
    for line in _CONTINUED.sub(" ", text).splitlines():
        if stripped := _COMMENT.sub("", line).strip():
            yield stripped


def _is_named(line: str) -> bool:
    """Whether it is a name, perhaps with versions, markers and hashes."""
    try:
        named = Requirement(_HASH.sub("", line))
    except InvalidRequirement:
        return False
    return named.url is None and not named.name.lower().endswith(_ARCHIVES)
