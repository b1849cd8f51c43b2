"""Data types of the rows of a world, and their format in the database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def path(type: str, id: str, cluster: str = "") -> str:  # noqa: A002 - Pulumi's own words
    return f"{type}/{id}@{cluster}" if cluster else f"{type}/{id}"


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
        return path(self.type, self.id, self.cluster)

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

    @property
    def path(self) -> str:
        return path(self.type, self.id, self.cluster)


def record_of(row: tuple[Any, ...]) -> Record:
    type_, id_, name, urn, inputs, outputs, origin, created, cluster = row
    return Record(type_, id_, name, urn, json.loads(inputs), json.loads(outputs), origin, created, cluster)


def dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def indexed(value: Any) -> str:
    """Return the form of a plain output in the lookup table. 1 and 1.0 have the same form."""
    return dump(int(value) if isinstance(value, float) and value.is_integer() else value)
