"""Writes the files of a commit into a folder, from git's objects alone.

`git checkout-index` and `git archive` obey the .gitattributes of the commit, and run programs from git's configuration.
For example, the filter of git-crypt (filter.<name>.smudge) would decrypt files that untrusted code then reads. So this
module uses only `git cat-file`, which runs no filter and no hook, and changes no line endings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

_LINK, _SUBMODULE, _FOLDER = "120000", "160000", "040000"
_MODES = {"100644": 0o644, "100664": 0o644, "100755": 0o755}
# The names that git refuses to check out (git, read-cache.c, verify_path).
_FORBIDDEN_NAMES = ("", ".", "..", ".git")
_CHUNK_BYTES = 1024**2

# The limits of a commit. They are needed because one object can be at many paths, so a dozen objects can be any number
# of files. The bytes of a path and of a link are limits of Linux (symlink(2), and PATH_MAX in limits.h, which counts a
# byte that ends the path). This project chose the others.
_MAX_ENTRIES = 200_000
_MAX_LIST_MIB = 64
_MAX_DEPTH = 200
_MAX_PATH_BYTES = 4_095
_MAX_LINK_BYTES = 4_095
_MAX_SHOWN = 100


class UnsafeTreeError(Exception):
    """A commit has files that cannot be written. The message names the first of these files and the reason."""


class Entry(NamedTuple):
    """One file or link of a commit."""

    mode: str
    id: str
    path: bytes

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK


def entries(listed: IO[bytes], max_gib: float) -> list[Entry]:
    """Return the files and links in the output of `git ls-tree -r -t -l -z`, links last. Submodules are left out.

    Raises:
        UnsafeTreeError: a path leads out of the folder, a file has an unknown mode, git lacks the content of a file, or
            a limit is exceeded. `max_gib` is the limit of all files together.
    """
    found, number, remaining_bytes = [], 0, max_gib * 1024**3
    for line in _lines(listed):
        number += 1
        if number > _MAX_ENTRIES:
            raise UnsafeTreeError(f"it has more than {_MAX_ENTRIES:,} files and folders")
        fields, _, path = line.partition(b"\t")
        mode, _, name, size = fields.decode().split()
        _check(path)
        if mode in (_SUBMODULE, _FOLDER):
            continue
        if mode != _LINK and mode not in _MODES:
            raise UnsafeTreeError(f"{_shown(path)}: has the mode {mode}, which git does not know")
        if not size.isdecimal():
            raise UnsafeTreeError(f"{_shown(path)}: git does not have its content, {name}")
        if mode == _LINK and int(size) > _MAX_LINK_BYTES:
            raise UnsafeTreeError(f"{_shown(path)}: is a link to a path of more than {_MAX_LINK_BYTES:,} bytes")
        remaining_bytes -= int(size)
        if remaining_bytes < 0:
            raise UnsafeTreeError(f"its files have more than {max_gib:g} GiB")
        found.append(Entry(mode, name, path))
    # Links come last, so that nothing is written through a link of the same tree.
    return sorted(found, key=lambda each: each.is_link)


def _lines(listed: IO[bytes]) -> Iterator[bytes]:
    read_bytes, incomplete = 0, b""
    while chunk := listed.read(_CHUNK_BYTES):
        read_bytes += len(chunk)
        if read_bytes > _MAX_LIST_MIB * 1024**2:
            raise UnsafeTreeError(f"the list of its files has more than {_MAX_LIST_MIB} MiB")
        *lines, incomplete = (incomplete + chunk).split(b"\0")
        yield from lines


def _check(path: bytes) -> None:
    if len(path) > _MAX_PATH_BYTES:
        raise UnsafeTreeError(f"{_shown(path)}: is a path of more than {_MAX_PATH_BYTES:,} bytes")
    names = os.fsdecode(path).split("/")
    if len(names) > _MAX_DEPTH:
        raise UnsafeTreeError(f"{_shown(path)}: has more than {_MAX_DEPTH} parts")
    if any(part.lower() in _FORBIDDEN_NAMES for part in names):
        raise UnsafeTreeError(f"{_shown(path)}: is no path that git would check out")


def _shown(path: bytes) -> str:
    """Return the beginning of a path in one line, for a message."""
    text = os.fsdecode(path)
    return f"{text[:_MAX_SHOWN]!a}" + ("..." if len(text) > _MAX_SHOWN else "")


def write(files: list[Entry], folder: Path, objects: IO[bytes]) -> None:
    """Write the files below a folder. `objects` is the output of `git cat-file --batch` for their ids, in this order.

    Raises:
        UnsafeTreeError: two files have the same path, git lacks one, or a path cannot be written.
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
            reason = error.strerror if isinstance(error, OSError) else "its path is invalid"
            raise UnsafeTreeError(f"{_shown(each.path)}: cannot be written: {reason}") from None
        objects.read(1)  # the end of a line


def _write(path: Path, mode: int, content: Iterator[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        for chunk in content:
            file.write(chunk)


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := source.read(min(size, _CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk
