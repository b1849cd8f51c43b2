"""The store of a manager on one computer: one SQLite file, which one process at a time locks."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

from gpu_ci.machine_records import MachineRecord

from ..memory import Memory, from_json, to_json
from ..ports import InUse, Unavailable

_SCHEMA = """
CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, gone REAL NOT NULL, line TEXT NOT NULL);
"""


class SqliteStore:
    """A store in one file. The manager holds a lock on the file. The kernel releases it when the process ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: Any = None
        with self._usable():
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(file, timeout=5, isolation_level=None)
            # Readable by the user only, because it contains names of repositories and workflows.
            file.chmod(0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(_SCHEMA)

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> bool:  # noqa: ARG002 - never waits
        """Take the file for this process. Raises InUse if another process has it."""
        with self._usable():
            self._lock = self._file.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InUse(f"{self._file}: another manager runs with this file") from None
        return True

    def may_act(self) -> bool:
        """Return True, because the lock lasts as long as the process."""
        return True

    def load(self, key: str = "memory") -> Memory:
        """Return the memory, or an empty one if it is missing or of an unreadable older version."""
        content = self._read(key)
        try:
            return from_json(content) if content else Memory()
        except ValueError:
            return Memory()

    def save(self, memory: Memory, key: str = "memory") -> None:
        self._write(key, to_json(memory))

    def publish(self, view: dict[str, Any]) -> None:
        """Save the view of the last pass for `gpu-ci manager status` and `gpu-ci explain`."""
        self._write("view", json.dumps(view).encode())

    def published(self) -> dict[str, Any] | None:
        """Return the view of the last pass, or None before the first pass."""
        content = self._read("view")
        return None if content is None else dict(json.loads(content))

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Store records of machines, each once. Raises Unavailable."""
        rows = [(each.key, each.gone.timestamp(), each.line()) for each in records]
        with self._usable():
            self._connection.executemany("INSERT OR IGNORE INTO records (key, gone, line) VALUES (?, ?, ?)", rows)

    def records(self, since: datetime) -> Iterator[str]:
        """Yield the records of machines that are gone since then, each as a line of JSON. Raises Unavailable."""
        with self._usable():
            query = "SELECT line FROM records WHERE gone >= ? ORDER BY gone, key"
            for (line,) in self._connection.execute(query, (since.timestamp(),)):
                yield str(line)

    def close(self) -> None:
        self._connection.close()
        if self._lock:
            self._lock.close()

    def _read(self, name: str) -> bytes | None:
        with self._usable():
            row = self._connection.execute("SELECT content FROM kept WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def _write(self, name: str, content: bytes) -> None:
        with self._usable():
            self._connection.execute("INSERT OR REPLACE INTO kept (name, content) VALUES (?, ?)", (name, content))

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise Unavailable with the file's name if SQLite or the file system fails, such as for a full disk."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            raise Unavailable(f"{self._file}: the manager's state cannot be used\n  got: {problem}") from None
