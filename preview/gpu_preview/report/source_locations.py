"""Locates resources and errors in a program, by the engine's source positions or by a traceback."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from ..isolation import safe_open
from ..model import Place

# The engine's form. Some languages add a column: project:///infra/pools.py#55 or …#55,12.
_POSITION = re.compile(r"project:///(?P<file>[^#]+)#(?P<line>[0-9]{1,9})(?:,[0-9]+)?")
# Python's form (docs.python.org/3/library/traceback.html), the innermost call last.
_CALL = re.compile(r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>[0-9]{1,9})\b', re.MULTILINE)
# Installed packages in a checkout are not part of the review.
_INSTALLED = ("site-packages", "dist-packages", "node_modules")


def of_source(positions: Iterable[str], root: Path, project: str = "") -> Iterator[Place]:
    """Return the calls of a program in files of the repository, the innermost first.

    `project` is the folder with Pulumi.yaml, relative to the root of the repository: positions are relative to it.
    """
    for position in positions:
        if found := _POSITION.fullmatch(position):
            yield from _within(PurePosixPath(project, found["file"]), found["line"], root)


def of_traceback(text: str, root: Path) -> Place | None:
    """Return the last call of Python tracebacks in a file of the repository, or None."""
    calls = [
        place for found in _CALL.finditer(text) for place in _within(PurePosixPath(found["file"]), found["line"], root)
    ]
    return calls[-1] if calls else None


def is_same(file: str, root: Path, base: Path) -> bool:
    """Return True if a file has the same bytes below both roots. False if it is not a plain file in one of them."""
    try:
        with safe_open.open_regular(root / file) as one, safe_open.open_regular(base / file) as other:
            size = os.fstat(other.fileno()).st_size
            return os.fstat(one.fileno()).st_size == size and one.read(size) == other.read(size)
    except OSError:
        return False


def _within(file: PurePosixPath, line: str, root: Path) -> Iterator[Place]:
    hidden = any(part in _INSTALLED or part.startswith(".") for part in file.parts)
    if not hidden and not file.is_absolute() and "\0" not in str(file) and _is_file(root / file):
        yield Place(file=str(file), line=max(1, int(line)), end_line=max(1, int(line)))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink()
    except OSError:
        return False
