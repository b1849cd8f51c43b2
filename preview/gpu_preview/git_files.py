"""Writes the files of a commit into a folder, from git's objects alone.

`git checkout-index` and `git archive` do as the tree's .gitattributes says, with the programs that the configuration
has for it: filter.<name>.smudge of git-crypt would decrypt for whoever reads the files next. So nothing but
`git cat-file` is asked here, which knows no filter, no hook and no line endings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_LINK, _SUBMODULE = "120000", "160000"
_MODES = {"100644": 0o644, "100664": 0o644, "100755": 0o755}
# What no tree that git itself wrote has in a path, and what it refuses to check out (git, read-cache.c, verify_path).
_NO_NAMES = ("", ".", "..", ".git")
_CHUNK_BYTES = 1024**2


class UnfitTreeError(Exception):
    """A commit whose files cannot be written; the text says which one, and why."""


class Entry(NamedTuple):
    """One file or link of a commit."""

    mode: str
    id: str
    path: bytes

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK


def entries(listed: bytes) -> list[Entry]:
    """What `git ls-tree -r -z` prints, links last; submodules, which are commits of elsewhere, are left out.

    UnfitTreeError for a path that leads anywhere but into the folder, and for a kind of file that git does not know.
    """
    found = []
    for line in filter(None, listed.split(b"\0")):
        words, _, path = line.partition(b"\t")
        mode, _, name = words.decode().split(" ")
        if mode == _SUBMODULE:
            continue
        if any(part.lower() in _NO_NAMES for part in os.fsdecode(path).split("/")):
            raise UnfitTreeError(f"{os.fsdecode(path)!a}: is no path that git would check out")
        if mode != _LINK and mode not in _MODES:
            raise UnfitTreeError(f"{os.fsdecode(path)!a}: has the mode {mode}, which git does not know")
        found.append(Entry(mode, name, path))
    # Nothing is ever written through a link of the same tree, if all of them come last.
    return sorted(found, key=lambda each: each.is_link)


def write(files: list[Entry], folder: Path, objects: BinaryIO) -> None:
    """Write them below a folder. `objects` is what `git cat-file --batch` prints for their ids, in this order.

    UnfitTreeError where two have the same place, or where git lacks one.
    """
    for each in files:
        path = folder / os.fsdecode(each.path)
        head = objects.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise UnfitTreeError(f"{os.fsdecode(each.path)!a}: git does not have its content, {each.id}")
        content = _chunks(objects, int(head[2]))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if each.is_link:
                path.symlink_to(os.fsdecode(b"".join(content)))
            else:
                _write(path, _MODES[each.mode], content)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "its name is none"
            raise UnfitTreeError(f"{os.fsdecode(each.path)!a}: cannot be written: {why}") from None
        objects.read(1)  # the end of a line


def _write(path: Path, mode: int, content: Iterator[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        for chunk in content:
            file.write(chunk)


def _chunks(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := source.read(min(size, _CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk
