"""Open the database file of a world: create its tables, and set its write-ahead log and file mode.

The *world* is the emulated cloud state of one sandbox. It holds the resources that the emulated clouds created.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

VERSION = 2
BUSY_SECONDS = 30.0
SCHEMA = """
CREATE TABLE resource (
  type TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, urn TEXT NOT NULL, inputs TEXT NOT NULL,
  outputs TEXT NOT NULL, origin TEXT NOT NULL, created TEXT NOT NULL, cluster TEXT NOT NULL,
  PRIMARY KEY (type, id, cluster)
);
CREATE INDEX resource_id ON resource (id);
-- The plain outputs of every resource, so that looking one up by its name or link stays quick in a large world.
CREATE TABLE output (
  type TEXT NOT NULL, id TEXT NOT NULL, cluster TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (type, id, cluster, key),
  FOREIGN KEY (type, id, cluster) REFERENCES resource (type, id, cluster) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX output_value ON output (key, value);
CREATE TABLE fault (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, target TEXT NOT NULL, times INTEGER NOT NULL,
  zone TEXT NOT NULL, seconds REAL NOT NULL, message TEXT NOT NULL, settings TEXT NOT NULL
);
CREATE TABLE event (
  id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, verb TEXT NOT NULL, type TEXT NOT NULL,
  resource TEXT NOT NULL, note TEXT NOT NULL, cluster TEXT NOT NULL
);
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class WorldError(Exception):
    """The world's file cannot be used. The text has a hint."""


# BUSY_CODES: another process is writing. FOLDER_CODES: the folder or the disk is the cause, not the file's content.
BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
FOLDER_CODES = frozenset(
    {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
)
WRITABLE_FOLDER_HINT = "make this folder writable and free disk space, or set PULUMI_SANDBOX_DIR to a writable folder"


def database_error(error: sqlite3.DatabaseError, file: Path = Path("world.db")) -> WorldError:
    """Return the error for a failure of SQLite. Only a broken file gets the hint to start with an empty world."""
    code = primary_code(error)
    if code in BUSY_CODES:
        hint = "another command is using this sandbox; run this command again when the other one has finished"
        return WorldError(f"{file.name}: {error}\n  hint: {hint}")
    if code in FOLDER_CODES:
        return WorldError(f"{file}: {error}\n  hint: {WRITABLE_FOLDER_HINT}")
    return WorldError(
        f"{file.name}: the sandbox's world cannot be read: {error}\n  hint: delete world.db* in the sandbox's folder"
    )


def primary_code(error: sqlite3.DatabaseError) -> int:
    """Return SQLite's primary result code. The higher bits hold the extended result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def open_file(path: Path) -> sqlite3.Connection:
    """Return a connection to the world in this file. Create the file if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # SQLite creates its -wal and -shm files with the mode of this file. An existing file is not opened here, because
    # close() would cancel the locks of another connection of this process.
    # Source: sqlite.org/howtocorrupt.html, "Posix advisory locks canceled by a separate thread doing close()".
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        prepare(connection, path.name)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise database_error(error, path) from None
    except WorldError:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Set the modes of the connection, and create the tables in a new file. WorldError for another version."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:  # SQLite does not apply its busy timeout while it changes the journal mode
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if time.monotonic() > deadline or primary_code(error) not in BUSY_CODES:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous = NORMAL")  # a commit survives a crash of the process, not a power failure
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif version != VERSION:
            raise WorldError(
                f"{name}: another version of pulumi-sandbox created this world\n  got: version {version}\n"
                f"  expected: version {VERSION}\n  hint: delete world.db* in the sandbox's folder"
            )
    finally:
        connection.execute("COMMIT")
