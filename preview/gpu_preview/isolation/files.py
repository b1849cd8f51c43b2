"""Opens an untrusted file, if it is a plain file."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, without following a link and without waiting for a pipe.

    Raises:
        OSError: the path is not a plain file, or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


_REMOVE_SEC = 60.0


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield an empty folder, and remove it afterwards. A file that cannot be removed stays, and raises no error."""
    path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield path
    finally:
        remove(path)


def remove(top: Path, timeout_sec: float = _REMOVE_SEC) -> None:
    """Remove a folder and all in it. Files that cannot be removed by this user, or within this time, stay.

    shutil.rmtree is recursive and fails for deep folders, and a path can have at most 4,096 bytes. So each inner folder
    is first moved into `top`, where its path is short. Its new name is random, so that untrusted code cannot use it.
    """
    if top.is_symlink():  # Untrusted code created the link, and its target is not ours.
        return
    with contextlib.suppress(OSError):
        top.chmod(0o700)
    deadline = time.monotonic() + timeout_sec
    remaining, emptied = [top], []
    while remaining and time.monotonic() < deadline:
        current = remaining.pop()
        emptied.append(current)
        with contextlib.suppress(OSError), os.scandir(current) as entries:
            # One at a time, because a folder can have too many entries for memory and time.
            for entry in itertools.takewhile(lambda _: time.monotonic() < deadline, entries):
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        Path(entry).unlink()
                        continue
                    # A folder without write permission can be neither moved nor emptied.
                    Path(entry).chmod(0o700)
                    moved = Path(entry) if current == top else Path(entry).rename(top / secrets.token_hex(16))
                    remaining.append(moved)
    for each in reversed(emptied):
        with contextlib.suppress(OSError):
            each.rmdir()
