"""Write files atomically."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write(name: str, text: str) -> None:
    """Write a whole file, or leave it as it was if the disk is full. A symbolic link is kept.

    The text goes to a temporary file in the same folder first. A file that cannot be replaced is overwritten.
    """
    path = Path(os.path.realpath(name))
    if Path(name).exists() and not path.is_file():
        Path(name).write_text(text, encoding="utf-8")  # a pipe or a device such as /dev/stderr
        return
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        if error.errno in _FULL or not path.exists():
            raise
        path.write_text(text, encoding="utf-8")  # a file that is a mount of its own, such as /dev/termination-log


def append(name: str, text: str) -> None:
    """Append to a file that other programs also write to. An empty name does nothing."""
    if name:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text)


def size(name: str) -> int:
    """Return the current size of a file; 0 if it does not exist."""
    path = Path(name)
    return path.stat().st_size if path.is_file() else 0


def reason(error: Exception) -> str:
    """Return a short reason why a file could not be written."""
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
