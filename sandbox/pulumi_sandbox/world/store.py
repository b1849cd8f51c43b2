"""The world (emulated cloud state) of one sandbox: resources, planted faults and events, in one SQLite file.

Several provider processes and threads use the file at the same time. Writes are IMMEDIATE transactions over a
write-ahead log.
"""

from __future__ import annotations

import copy
import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.file import WorldError, open_file


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Record:
    """One resource of the world, a row of its table.

    `origin` is "stack", "api" (a client of a served API created it) or "controller" (a controller of an emulated
    cluster created it). Without a stack, `urn` is empty.
    """

    type: str
    id: str
    name: str = ""
    urn: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    origin: str = "stack"
    created: str = ""
    cluster: str = ""
    """The cluster of a Kubernetes object; empty for all other resources."""

    @property
    def path(self) -> str:
        """The unique name of the row."""
        return f"{self.type}/{self.id}" + (f"@{self.cluster}" if self.cluster else "")

    @property
    def stack(self) -> str:
        """The `project/stack` that created the resource."""
        parts = self.urn.split("::")
        return f"{parts[1]}/{parts[0].removeprefix('urn:pulumi:')}" if len(parts) > 3 else ""


@dataclass(frozen=True)
class Event:
    """One event in the log of the world."""

    time: str
    verb: str
    type: str
    id: str
    note: str = ""
    cluster: str = ""


def record_of(row: tuple[Any, ...]) -> Record:
    type_, id_, name, urn, inputs, outputs, origin, created, cluster = row
    return Record(type_, id_, name, urn, json.loads(inputs), json.loads(outputs), origin, created, cluster)


def dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def indexed(value: Any) -> str:
    """Return the form of a plain output in the lookup table. 1 and 1.0 have the same form."""
    return dump(int(value) if isinstance(value, float) and value.is_integer() else value)


__all__ = ["Event", "Exists", "Fault", "Record", "World", "WorldError", "now"]

# Longer texts are not indexed, so `find` does not match them.
INDEXED_CHARACTERS = 512


class Exists(Exception):  # noqa: N818 - what happened, not a failure of the world
    """A resource of this type with this id exists already."""


def _no_cluster() -> str:
    return ""


class World:
    """One world. Safe for several threads and several processes at the same time. A row is one resource."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._package, self._cluster = "", _no_cluster
        self._connection = open_file(self.path)
        self.key = bytes.fromhex(self.get_or_create("key", lambda: secrets.token_hex(32)))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def for_cluster(self, package: str, cluster: Callable[[], str]) -> World:
        """Return a view of the world for a provider of one cluster. The package's rows of other clusters are hidden."""
        view = copy.copy(self)
        view._package, view._cluster = f"{package}:", cluster
        return view

    def _cluster_of(self, type: str) -> str:  # noqa: A002
        """Return the Kubernetes cluster in which a row of this type is looked up; empty outside of a cluster's view."""
        return self._cluster() if self._package and type.startswith(self._package) else ""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one atomic transaction. Transactions may be nested; the outermost one commits."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def get_or_create(self, key: str, make: Callable[[], str]) -> str:
        """Return the setting with this key. The first call of any process creates it."""
        if self.setting(key) is None:
            self._rows("INSERT OR IGNORE INTO setting VALUES (?, ?)", key, make())
        return str(self.setting(key))

    def setting(self, key: str) -> str | None:
        """Return the setting with this key, or None."""
        rows = self._rows("SELECT value FROM setting WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def settings(self, prefix: str) -> list[str]:
        """Return all settings whose keys have this prefix."""
        return [str(text) for (text,) in self._rows("SELECT value FROM setting WHERE key GLOB ?", f"{prefix}*")]

    def set_setting(self, key: str, value: str) -> None:
        """Set the setting with this key, and replace its old value."""
        self._rows("INSERT OR REPLACE INTO setting VALUES (?, ?)", key, value)

    def next_number(self, key: str, first: int = 1) -> int:
        """Return the next number of this key. No number is returned twice in this world."""
        rows = self._rows(
            "INSERT INTO setting VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1 "
            "RETURNING value",
            key, str(first),
        )  # fmt: skip
        return int(rows[0][0])

    def insert(self, record: Record) -> Record:
        """Add a row and return it with its time of creation. Raise Exists if the row exists."""
        cluster = record.cluster or self._cluster_of(record.type)
        record = replace(record, cluster=cluster, created=record.created or now())
        with self.transaction():
            try:
                self._rows(
                    "INSERT INTO resource VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    record.type, record.id, record.name, record.urn, dump(record.inputs), dump(record.outputs),
                    record.origin, record.created, cluster,
                )  # fmt: skip
            except sqlite3.IntegrityError:
                raise Exists(f"{record.type} {record.id} exists already") from None
            self._index(record.type, record.id, cluster, record.outputs)
            self.event("create", record.type, record.id, record.name, cluster)
        return record

    def get(self, type: str, id: str, cluster: str | None = None) -> Record | None:  # noqa: A002 - Pulumi's own words
        cluster = self._cluster_of(type) if cluster is None else cluster
        rows = self._rows("SELECT * FROM resource WHERE (type, id, cluster) = (?, ?, ?)", type, id, cluster)
        return record_of(rows[0]) if rows else None

    def find(self, type: str | None = None, **outputs: Any) -> list[Record]:  # noqa: A002
        """Return the rows with this type (or glob) and these plain outputs, oldest first."""
        conditions: list[str] = ["1"]
        values: list[Any] = []
        if self._package:
            conditions.append("cluster = iif(type GLOB ?, ?, '')")
            values.extend([f"{self._package}*", self._cluster()])
        if type is not None:
            conditions.append("type GLOB ?" if "*" in type else "type = ?")
            values.append(type)
        for key, value in outputs.items():
            conditions.append(
                "(type, id, cluster) IN (SELECT type, id, cluster FROM output WHERE key = ? AND value = ?)"
            )
            values.extend([key, indexed(value)])
        condition = " AND ".join(conditions)
        statement = f"SELECT * FROM resource WHERE {condition} ORDER BY rowid"  # noqa: S608 - only placeholders
        return [record_of(row) for row in self._rows(statement, *values)]

    def update(
        self,
        type: str,  # noqa: A002
        id: str,  # noqa: A002
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        note: str = "",
        cluster: str | None = None,
        quiet: bool = False,
    ) -> Record | None:
        """Replace the inputs, the outputs or both. Return the new row, or None if the row does not exist.

        A `quiet` change adds no event.
        """
        with self.transaction():
            old = self.get(type, id, cluster)
            if old is None:
                return None
            new = replace(
                old,
                inputs=old.inputs if inputs is None else dict(inputs),
                outputs=old.outputs if outputs is None else dict(outputs),
            )
            self._rows(
                "UPDATE resource SET inputs = ?, outputs = ? WHERE (type, id, cluster) = (?, ?, ?)",
                dump(new.inputs), dump(new.outputs), type, id, old.cluster,
            )  # fmt: skip
            self._rows("DELETE FROM output WHERE (type, id, cluster) = (?, ?, ?)", type, id, old.cluster)
            self._index(type, id, old.cluster, new.outputs)
            if not quiet:
                self.event("update", type, id, note or old.name, old.cluster)
        return new

    def assign_to_stack(self, type: str, id: str, urn: str, name: str) -> None:  # noqa: A002
        """Assign the row to the stack that imported it, or, with an empty `urn`, to no stack."""
        self._rows(
            "UPDATE resource SET urn = ?, name = ?, origin = 'stack' WHERE (type, id, cluster) = (?, ?, ?)",
            urn, name, type, id, self._cluster_of(type),
        )  # fmt: skip

    def delete(self, type: str, id: str, note: str = "", cluster: str | None = None) -> bool:  # noqa: A002
        """Remove a row. Return True if the row existed."""
        row_cluster = self._cluster_of(type) if cluster is None else cluster
        with self.transaction():
            statement = "DELETE FROM resource WHERE (type, id, cluster) = (?, ?, ?) RETURNING id"
            existed = bool(self._rows(statement, type, id, row_cluster))
            if existed:
                self.event("delete", type, id, note, row_cluster)
        return existed

    def _index(self, type: str, id: str, cluster: str, outputs: Mapping[str, Any]) -> None:  # noqa: A002
        for key, value in outputs.items():
            if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= INDEXED_CHARACTERS):
                self._rows("INSERT INTO output VALUES (?, ?, ?, ?, ?)", type, id, cluster, key, indexed(value))

    def add_fault(self, fault: Fault) -> int:
        rows = self._rows(
            "INSERT INTO fault (kind, target, times, zone, seconds, message, settings) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "RETURNING id",
            fault.kind, fault.on, fault.times, fault.zone, fault.seconds, fault.message, json.dumps(fault.settings),
        )  # fmt: skip
        return int(rows[0][0])

    def take_fault(self, kind: str, type: str, name: str, **attributes: str) -> Fault | None:  # noqa: A002
        """Return a planted fault of this kind for a resource, or None.

        The fault is counted down, and removed after its last time.
        """
        if not self._rows("SELECT 1 FROM fault WHERE kind = ? LIMIT 1", kind):
            return None
        with self.transaction():
            for fault in self.faults():
                if fault.kind == kind and fault.applies_to(type, name, attributes):
                    if fault.times == 1:
                        self.clear_faults(fault.id)
                    elif fault.times > 1:
                        self._rows("UPDATE fault SET times = times - 1 WHERE id = ?", fault.id)
                    self.event(f"fault {kind}", type, attributes.get("id", ""), name)
                    return fault
        return None

    def faults(self) -> list[Fault]:
        columns = "kind, target, times, zone, seconds, message, settings, id"
        rows = self._rows(f"SELECT {columns} FROM fault ORDER BY id")  # noqa: S608 - a constant
        return [
            Fault(kind, on, times, zone, seconds, message, json.loads(settings), number)
            for kind, on, times, zone, seconds, message, settings, number in rows
        ]

    def clear_faults(self, fault: int | None = None) -> int:
        """Remove one fault or all faults. Return the number of removed faults."""
        return len(self._rows("DELETE FROM fault WHERE id = ? OR ? IS NULL RETURNING id", fault, fault))

    def event(self, verb: str, type: str, id: str, note: str = "", cluster: str | None = None) -> None:  # noqa: A002
        self._rows(
            "INSERT INTO event (time, verb, type, resource, note, cluster) VALUES (?, ?, ?, ?, ?, ?)",
            now(), verb, type, id, note, self._cluster_of(type) if cluster is None else cluster,
        )  # fmt: skip

    def events(self, last: int | None = None) -> list[Event]:
        columns = "time, verb, type, resource, note, cluster"
        rows = self._rows(
            f"SELECT {columns} FROM event ORDER BY id DESC LIMIT ?",  # noqa: S608 - a constant
            -1 if last is None else last,
        )
        return [Event(*row) for row in reversed(rows)]
