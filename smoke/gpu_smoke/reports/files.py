"""Files that are whole or not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write(name: str, text: str) -> None:
    """Write a whole file or leave it as it was, also where the disk is full; a link stays one.

    It is written beside its place first. What cannot be replaced is written as it is.
    """
    path = Path(os.path.realpath(name))
    if Path(name).exists() and not path.is_file():
        Path(name).write_text(text, encoding="utf-8")  # a pipe, /dev/stderr: it must stay what it is
        return
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        if error.errno in _FULL or not path.exists():
            raise
        path.write_text(text, encoding="utf-8")  # a file mounted by itself, as /dev/termination-log is


def append(name: str, text: str) -> None:
    """Add to a file that others write to as well, where there is a name for it."""
    if name:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text)


def size(name: str) -> int:
    """How much of a file there is already."""
    path = Path(name)
    return path.stat().st_size if path.is_file() else 0


def reason(error: Exception) -> str:
    """Why it could not be written, in a few words."""
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
