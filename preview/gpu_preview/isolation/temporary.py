"""A temporary folder for untrusted code, which can leave any files there."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_SEC = 60.0


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """Give an empty folder, and remove it afterwards as far as possible. A failed removal does not hide the result."""
    made = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield made
    finally:
        remove(made)


def remove(top: Path, patience_sec: float = _PATIENCE_SEC) -> None:
    """Remove a folder and all in it. What cannot be removed in this time, or by this user, is left there.

    shutil.rmtree calls itself for each folder in a folder, and no path may be longer than 4,096 bytes. So here every
    folder is first moved to the top, where its path is short however deep it lay, by a name that nobody can foresee.
    """
    if top.is_symlink():  # Untrusted code created the link, and its target is not ours.
        return
    with contextlib.suppress(OSError):
        top.chmod(0o700)
    until = time.monotonic() + patience_sec
    left, emptied = [top], []
    while left and time.monotonic() < until:
        here = left.pop()
        emptied.append(here)
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            # One at a time, because a folder can have too many entries for memory and time.
            for entry in itertools.takewhile(lambda _: time.monotonic() < until, entries):
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        Path(entry).unlink()
                        continue
                    # A folder without write permission can be neither moved nor emptied.
                    Path(entry).chmod(0o700)
                    left.append(Path(entry) if here == top else Path(entry).rename(top / secrets.token_hex(16)))
    for each in reversed(emptied):
        with contextlib.suppress(OSError):
            each.rmdir()
