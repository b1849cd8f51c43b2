"""What a lock may name where nobody trusts it: packages by name, as wheels, from where the base gets its own.

A path, an address or a source distribution runs code of its own while it is installed, and installing has the network
(https://pip.pypa.io/en/stable/reference/requirements-file-format/). An installer never sees the lock itself, only what
is written here of what was understood: so no two readers can disagree on what a line says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash=((?:sha256|sha384|sha512):[0-9a-fA-F]+)(?=\s|$)")
# An installer treats a name with such an ending as a file (pip 25, _internal/utils/filetypes.py, ARCHIVE_EXTENSIONS).
_ARCHIVES = (".whl", ".zip", ".gz", ".tgz", ".tar", ".bz2", ".tbz", ".xz", ".txz", ".tlz", ".lz", ".lzma")
# Options for package sources. They must be the same in the base, and must not be folders.
_SOURCE = re.compile(r"(?:--index-url|--extra-index-url|--find-links|-i|-f)[\s=]\s*https?://\S+|--pre|--prefer-binary")
# The limit of a line without hashes. The longest lines of poetry have a few hundred characters.
_LONGEST = 2000
# A program has some hundreds of packages. The limit ends an endless list.
_MOST = 5000


class Named(NamedTuple):
    """One package of a lock."""

    requirement: Requirement
    hashes: tuple[str, ...] = ()

    @property
    def is_wanted(self) -> bool:
        """Return True if its marker matches this interpreter, which runs the revisions."""
        return self.requirement.marker is None or self.requirement.marker.evaluate()

    @property
    def text(self) -> str:
        """Return the package as our own line, without its marker."""
        extras = ",".join(sorted(self.requirement.extras))
        name = f"{self.requirement.name}[{extras}]" if extras else self.requirement.name
        return " ".join([f"{name}{self.requirement.specifier}", *(f"--hash={each}" for each in self.hashes)])


def refused(text: str, trusted: str) -> list[str]:
    """Return the lines that must not be installed. `trusted` is the base's file."""
    known, lines = set(_sources(trusted)), list(_lines(text))
    if len(lines) > _MOST:
        return [f"{len(lines)} packages, more than {_MOST}"]
    return [line for line in lines if line not in known and _named(line) is None]


def named(text: str) -> list[Named]:
    """Return the packages for this interpreter. Other lines are ignored."""
    found = (_named(line) for line in _lines(text))
    return [each for each in found if each is not None and each.is_wanted]


def written(text: str, trusted: str) -> str:
    """Return our own list for an installer: the packages of a lock, from the base's package sources."""
    return "".join(f"{line}\n" for line in [*_sources(trusted), *(each.text for each in named(text))])


def _sources(text: str) -> list[str]:
    return [line for line in _lines(text) if _SOURCE.fullmatch(line)]


def _lines(text: str) -> Iterator[str]:
    """Return the joined lines. Comments are removed first, because a comment does not continue on the next line."""
    begun: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = _COMMENT.sub("", line).strip()
        begun.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            if whole := " ".join(filter(None, begun)):
                yield whole
            begun = []


def _named(line: str) -> Named | None:
    """Return a name with optional extras, versions, marker and hashes, or None for anything else."""
    bare = _HASH.sub("", line)
    try:
        found = Named(Requirement(bare), tuple(_HASH.findall(line))) if len(bare) <= _LONGEST else None
        fits = found is not None and isinstance(found.is_wanted, bool)
    except (InvalidRequirement, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return None
    if found is None or not fits or found.requirement.url is not None:
        return None
    text = Named(found.requirement).text
    # `===` accepts any text as a version, also one with an environment variable.
    unusable = "===" in text or text.lower().endswith(_ARCHIVES) or found.requirement.name.lower().endswith(_ARCHIVES)
    return None if unusable else found
