"""Opens an untrusted file, if it is a plain file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class NotRegularFileError(OSError):
    """The path is a folder, a pipe or a device."""


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, without following a link and without waiting for a pipe.

    Raises:
        OSError: the path is a link, or cannot be opened.
        NotRegularFileError: the path is not a plain file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularFileError
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)
