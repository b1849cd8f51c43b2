"""Searches for planted secrets in every place where a machine could leave one, while the machine runs.

The scanner stores what it reads and searches it at the end, because some secrets, such as tokens, are created later.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PROCESSES_SEC = 0.02
_FILES_SEC = 0.1
_TRIES = 5
# No file of a test's machine is longer. A secret behind this limit is not expected.
_FILE_BYTES = 4_000_000


class Finding(NamedTuple):
    """A secret and the place where it was found."""

    secret: str
    """The label of the secret."""
    kind: str
    """argv, environ, file, or the name of an output."""
    where: str
    """The command line of the process, or the path of the file."""


class Scanner:
    """Scans all processes except `apart`, and all files below `folders`, from its creation on."""

    def __init__(self, folders: Sequence[Path], apart: Sequence[int] = ()) -> None:
        self._folders, self._apart = folders, set(map(str, apart))
        self._processes: set[tuple[bytes, bytes]] = set()
        self._files: dict[tuple[str, int, int, int], bytes] = {}
        self.rounds = 0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Scan repeatedly during the block, and once more at its end."""
        over = threading.Event()

        def look() -> None:
            next_files = 0.0
            while not over.wait(_PROCESSES_SEC):
                self.look_at_processes()
                if time.monotonic() >= next_files:
                    self.look_at_files()
                    next_files = time.monotonic() + _FILES_SEC

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.look_at_processes()
            self.look_at_files()

    def look_at_processes(self) -> None:
        """Read the command line and the environment of each live process."""
        self.rounds += 1
        for name in os.listdir("/proc"):  # noqa: PTH208 - fifty times a second
            if not name.isdigit() or name in self._apart:
                continue
            for _ in range(_TRIES):
                try:
                    arguments, environ = _read(f"/proc/{name}/cmdline"), _read(f"/proc/{name}/environ")
                    # If a process starts another program meanwhile, it is read again. Otherwise the two values would
                    # not belong together.
                    if arguments and arguments == _read(f"/proc/{name}/cmdline"):
                        self._processes.add((arguments, environ))
                        break
                except OSError:
                    break  # it has just ended

    def look_at_files(self) -> None:
        """Read each file that is new or has changed since the last scan."""
        for folder in self._folders:
            for path, _, names in os.walk(folder):
                for name in names:
                    file = os.path.join(path, name)  # noqa: PTH118 - ten times a second
                    try:
                        status = os.lstat(file)
                        key = (file, status.st_ino, status.st_mtime_ns, status.st_size)
                        if stat.S_ISREG(status.st_mode) and key not in self._files:
                            self._files[key] = _read(file)
                    except OSError:
                        continue

    def findings(self, planted: Mapping[str, Sequence[str]], outputs: Mapping[str, str]) -> list[Finding]:
        """Return each place in which any form of a secret was found, once."""
        found: set[Finding] = set()
        needles = [(label, form.encode()) for label, forms in planted.items() for form in forms]
        for label, needle in needles:
            for arguments, environ in self._processes:
                where = arguments.replace(b"\0", b" ").decode(errors="replace").strip()[:300]
                found |= {Finding(label, "argv", where)} if needle in arguments else set()
                found |= {Finding(label, "environ", where)} if needle in environ else set()
            found |= {Finding(label, "file", key[0]) for key, content in self._files.items() if needle in content}
            found |= {Finding(label, name, "") for name, text in outputs.items() if needle in text.encode()}
        return sorted(found)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - fifty times a second
        return file.read(_FILE_BYTES)
