"""Opens a file that somebody else wrote: a plain one, or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class NotRegularFileError(OSError):
    """A folder, a pipe or a device."""


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """The file, to read. OSError where it is a link, which is not followed, or cannot be opened; NotRegularFileError.

    A pipe that nobody writes into is not waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularFileError
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)
