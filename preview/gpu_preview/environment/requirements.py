"""Reads an untrusted lock, and writes a list of packages from it that is safe to install.

Allowed are packages by name, installed as wheels from the package sources of the base's lock. A path, an address or a
source distribution is refused, because it runs its own code during the installation, which has network access
(https://pip.pypa.io/en/stable/reference/requirements-file-format/).

The installer gets only the list that this module writes, never the lock itself. So the installer cannot read a line
differently from this module.
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
# The limit of a line without hashes, in characters. The longest lines of poetry have a few hundred.
_LONGEST = 2000
# The limit of packages. A program has some hundreds of packages.
_MAX_PACKAGES = 5000


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
        """Return the line for the installer, without the marker."""
        extras = ",".join(sorted(self.requirement.extras))
        name = f"{self.requirement.name}[{extras}]" if extras else self.requirement.name
        return " ".join([f"{name}{self.requirement.specifier}", *(f"--hash={each}" for each in self.hashes)])


def rejected_lines(text: str, trusted: str) -> list[str]:
    """Return the lines of a lock that must not be installed. `trusted` is the text of the base's lock."""
    trusted_sources, lines = set(_sources(trusted)), list(_lines(text))
    if len(lines) > _MAX_PACKAGES:
        return [f"{len(lines)} packages, more than {_MAX_PACKAGES}"]
    return [line for line in lines if line not in trusted_sources and _named(line) is None]


def packages_of(text: str) -> list[Named]:
    """Return the packages for this interpreter. Other lines are ignored."""
    found = (_named(line) for line in _lines(text))
    return [each for each in found if each is not None and each.is_wanted]


def installer_list(text: str, trusted: str) -> str:
    """Return the list for the installer: the packages of a lock, and the base's package sources."""
    return "".join(f"{line}\n" for line in [*_sources(trusted), *(each.text for each in packages_of(text))])


def _sources(text: str) -> list[str]:
    return [line for line in _lines(text) if _SOURCE.fullmatch(line)]


def _lines(text: str) -> Iterator[str]:
    """Yield each line, joined with the lines that continue it after a backslash.

    Comments are removed first, because a comment does not continue on the next line.
    """
    parts: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = _COMMENT.sub("", line).strip()
        parts.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            if joined := " ".join(filter(None, parts)):
                yield joined
            parts = []


def _named(line: str) -> Named | None:
    """Return a name with optional extras, versions, marker and hashes, or None for anything else."""
    without_hashes = _HASH.sub("", line)
    if len(without_hashes) > _LONGEST:
        return None
    try:
        found = Named(Requirement(without_hashes), tuple(_HASH.findall(line)))
        _ = found.is_wanted  # An invalid marker raises an error only here.
    except (InvalidRequirement, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return None
    if found.requirement.url is not None:
        return None
    text = Named(found.requirement).text
    # `===` accepts any text as a version, also one with an environment variable.
    unusable = "===" in text or text.lower().endswith(_ARCHIVES) or found.requirement.name.lower().endswith(_ARCHIVES)
    return None if unusable else found
