"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def write(name: str, text: str) -> None:
    """Write a whole file or none: beside it first, then in its place. What cannot be replaced is written as it is."""
    path = Path(name)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if path.exists() and not path.is_file():
            raise OSError  # a pipe, /dev/stderr: it must stay what it is
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        if not path.exists():
            raise
        path.write_text(text, encoding="utf-8")  # also a file mounted by itself, as /dev/termination-log is


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
