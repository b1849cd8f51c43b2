"""The rows of a world, and how they are written into its file."""

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
    """One thing that exists. `urn` is empty for what no stack made, and `origin` then says "api" or "controller"."""

    type: str
    id: str
    name: str = ""
    urn: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    origin: str = "stack"  # what a controller made goes with what it was made for
    created: str = ""
    cluster: str = ""
    """Which one an object of Kubernetes is in; empty for everything else."""

    @property
    def path(self) -> str:
        """What no other row is called."""
        return path(self.type, self.id, self.cluster)

    @property
    def stack(self) -> str:
        """`project/stack` of the stack that made it."""
        parts = self.urn.split("::")
        return f"{parts[1]}/{parts[0].removeprefix('urn:pulumi:')}" if len(parts) > 3 else ""


@dataclass(frozen=True)
class Event:
    """Something that happened, in the order it did."""

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
    """A plain output as it is looked up: 1 and 1.0 are the same."""
    return dump(int(value) if isinstance(value, float) and value.is_integer() else value)
