"""Writes the files of a commit into a folder, from git's objects alone.

`git checkout-index` and `git archive` do as the tree's .gitattributes says, with the programs that the configuration
has for it: filter.<name>.smudge of git-crypt would decrypt for whoever reads the files next. So nothing but
`git cat-file` is asked here, which knows no filter, no hook and no line endings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

_LINK, _SUBMODULE, _FOLDER = "120000", "160000", "040000"
_MODES = {"100644": 0o644, "100664": 0o644, "100755": 0o755}
# What no tree that git itself wrote has in a path, and what it refuses to check out (git, read-cache.c, verify_path).
_NO_NAMES = ("", ".", "..", ".git")
_CHUNK_BYTES = 1024**2

# What a commit may come to, for a dozen objects of git can stand for any number of files: each may be in many places.
# The number, the length of the list and the parts of a path are figures of ours, the other two Linux's (PATH_MAX in
# limits.h, which counts a byte that ends the path; symlink(2)).
_MOST_ENTRIES = 200_000
_MOST_LISTED_MIB = 64
_MAX_DEPTH = 200
_MOST_PATH_BYTES = 4_095
_MOST_LINK_BYTES = 4_095
_MOST_SHOWN = 100


class UnsafeTreeError(Exception):
    """A commit has files that cannot be written. The text names one, and says why."""


class Entry(NamedTuple):
    """One file or link of a commit."""

    mode: str
    id: str
    path: bytes

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK


def entries(listed: IO[bytes], most_gib: float) -> list[Entry]:
    """What `git ls-tree -r -t -l -z` prints, links last; submodules, which are commits of elsewhere, are left out.

    UnfitTreeError for a path that leads anywhere but into the folder, for a kind of file that git does not know, for
    what git lacks, and where it is more than may be written: `most_gib` for all files together.
    """
    found, number, most_bytes = [], 0, most_gib * 1024**3
    for line in _lines(listed):
        number += 1
        if number > _MOST_ENTRIES:
            raise UnsafeTreeError(f"it has more than {_MOST_ENTRIES:,} files and folders")
        fields, _, path = line.partition(b"\t")
        mode, _, name, size = fields.decode().split()
        _look_at(path)
        if mode in (_SUBMODULE, _FOLDER):
            continue
        if mode != _LINK and mode not in _MODES:
            raise UnsafeTreeError(f"{_shown(path)}: has the mode {mode}, which git does not know")
        if not size.isdecimal():
            raise UnsafeTreeError(f"{_shown(path)}: git does not have its content, {name}")
        if mode == _LINK and int(size) > _MOST_LINK_BYTES:
            raise UnsafeTreeError(f"{_shown(path)}: is a link to a path of more than {_MOST_LINK_BYTES:,} bytes")
        most_bytes -= int(size)
        if most_bytes < 0:
            raise UnsafeTreeError(f"its files have more than {most_gib:g} GiB")
        found.append(Entry(mode, name, path))
    # Links come last, so that nothing is written through a link of the same tree.
    return sorted(found, key=lambda each: each.is_link)


def _lines(listed: IO[bytes]) -> Iterator[bytes]:
    read, left = 0, b""
    while chunk := listed.read(_CHUNK_BYTES):
        read += len(chunk)
        if read > _MOST_LISTED_MIB * 1024**2:
            raise UnsafeTreeError(f"the list of its files has more than {_MOST_LISTED_MIB} MiB")
        *whole, left = (left + chunk).split(b"\0")
        yield from whole


def _look_at(path: bytes) -> None:
    if len(path) > _MOST_PATH_BYTES:
        raise UnsafeTreeError(f"{_shown(path)}: is a path of more than {_MOST_PATH_BYTES:,} bytes")
    names = os.fsdecode(path).split("/")
    if len(names) > _MAX_DEPTH:
        raise UnsafeTreeError(f"{_shown(path)}: has more than {_MAX_DEPTH} parts")
    if any(part.lower() in _NO_NAMES for part in names):
        raise UnsafeTreeError(f"{_shown(path)}: is no path that git would check out")


def _shown(path: bytes) -> str:
    """Return the beginning of a path in one line, for a message."""
    text = os.fsdecode(path)
    return f"{text[:_MOST_SHOWN]!a}" + ("..." if len(text) > _MOST_SHOWN else "")


def write(files: list[Entry], folder: Path, objects: IO[bytes]) -> None:
    """Write them below a folder. `objects` is what `git cat-file --batch` prints for their ids, in this order.

    UnfitTreeError where two have the same place, or where git lacks one.
    """
    for each in files:
        path = folder / os.fsdecode(each.path)
        head = objects.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise UnsafeTreeError(f"{_shown(each.path)}: git does not have its content, {each.id}")
        content = _chunks(objects, int(head[2]))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if each.is_link:
                path.symlink_to(os.fsdecode(b"".join(content)))
            else:
                _write(path, _MODES[each.mode], content)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "its name is none"
            raise UnsafeTreeError(f"{_shown(each.path)}: cannot be written: {why}") from None
        objects.read(1)  # the end of a line


def _write(path: Path, mode: int, content: Iterator[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        for chunk in content:
            file.write(chunk)


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := source.read(min(size, _CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk
