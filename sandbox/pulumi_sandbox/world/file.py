"""Opens the file of a world: its tables, its write-ahead log, and who may read it."""

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
# The note in the log of events of a change that `pulumi-sandbox world edit` made.
EDITED = "edited by hand"


class WorldError(Exception):
    """The world's file cannot be used; the text says what to do."""


# What SQLite answers where another process is writing, and where the folder is at fault and not what the file says.
BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
FOLDER = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
ELSEWHERE = "free or unlock this folder, or set PULUMI_SANDBOX_DIR to one that can be written to"


def unreadable(wrong: sqlite3.DatabaseError, file: Path = Path("world.db")) -> WorldError:
    """What SQLite says of the world's file, and what to do; an empty world mends only what the file itself has."""
    code = code_of(wrong)
    if code in BUSY:
        hint = "another command is at work in this sandbox; run this one again when it has ended"
        return WorldError(f"{file.name}: {wrong}\n  hint: {hint}")
    if code in FOLDER:
        return WorldError(f"{file}: {wrong}\n  hint: {ELSEWHERE}")
    return WorldError(
        f"{file.name}: the sandbox's world cannot be read: {wrong}\n  hint: start over with an empty one: "
        "pulumi-sandbox world reset"
    )


def code_of(wrong: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code: the bits above it tell kinds of one error apart."""
    return getattr(wrong, "sqlite_errorcode", 0) & 0xFF


def open_file(path: Path) -> sqlite3.Connection:
    """A connection to the world in this file, which is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # SQLite gives its side files the same mode. A file that exists is not opened here: closing it again would take this
    # process's locks on it from another connection (sqlite.org/howtocorrupt.html, "Posix advisory locks canceled by a
    # separate thread doing close()").
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        prepare(connection, path.name)
    except sqlite3.DatabaseError as wrong:
        connection.close()
        raise unreadable(wrong, path) from None
    except WorldError:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, name: str) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:  # SQLite does not wait for others while it changes the journal's mode
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as wrong:
            if time.monotonic() > deadline or code_of(wrong) not in BUSY:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous = NORMAL")  # a commit outlives the process, though not a power cut
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
                f"{name}: the world was made by another version of pulumi-sandbox\n  got: version {version}\n"
                f"  expected: version {VERSION}\n  hint: start over with an empty one: pulumi-sandbox world reset"
            )
    finally:
        connection.execute("COMMIT")
