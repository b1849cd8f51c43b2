"""Resources as the engine's digest (`pulumi preview --json`) has them, as far as the rules of danger look at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..diff.value_pairs import ValuePair, pairs
from ..json_text import as_list, as_map, as_text
from ..model import Operation, Resource

STACK = "pulumi:pulumi:Stack"


@dataclass(frozen=True)
class State:
    """One resource at one side. Whatever the digest has in a place where something else belongs is left out."""

    urn: str
    type: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """placeholders.py says what stands for what is secret, and for what nobody knows before the update."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    """URNs."""
    protect: bool = False
    retained: bool = False
    """Whether the engine forgets it without deleting it in the cloud (retainOnDelete)."""
    external: bool = False
    """Whether it is only looked up, and somebody else's."""
    positions: tuple[str, ...] = ()
    """Where the program makes it, the innermost call first, such as `project:///infra/pools.py#55`."""

    @classmethod
    def of(cls, found: Any) -> State:
        """An `oldState` or `newState` of the digest."""
        state: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        frames = [state, *as_list(state.get("stackTrace"))]
        positions = [as_text(frame.get("sourcePosition")) for frame in frames if isinstance(frame, Mapping)]
        return cls(
            urn=as_text(state.get("urn")),
            type=as_text(state.get("type")),
            inputs=as_map(state.get("inputs")),
            outputs=as_map(state.get("outputs")),
            parent=as_text(state.get("parent")),
            dependencies=tuple(each for each in as_list(state.get("dependencies")) if isinstance(each, str)),
            protect=state.get("protect") is True,
            retained=state.get("retainOnDelete") is True,
            external=state.get("external") is True,
            positions=tuple(dict.fromkeys(filter(None, positions))),
        )


@dataclass(frozen=True)
class Change:
    """One resource of the report with its two states; None where a side has no such resource."""

    resource: Resource
    before: State | None
    after: State | None

    @property
    def type(self) -> str:
        return self.resource.type

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return f"{self.type.rpartition(':')[2]} {self.resource.name}"

    @property
    def ends(self) -> str:
        """`is deleted` or `is replaced`, and nothing where what there is stays in the cloud."""
        if self.before is None or self.before.retained or self.before.external:
            return ""
        return {Operation.DELETE: "is deleted", Operation.REPLACE: "is replaced"}.get(self.resource.operation, "")

    @cached_property
    def inputs(self) -> tuple[ValuePair, ...]:
        """Every value of its inputs at both sides; none of a resource that goes, because nothing of it is left."""
        if self.after is None:
            return ()
        return tuple(pairs(self.before.inputs if self.before else {}, self.after.inputs))


@dataclass(frozen=True)
class World:
    """All of both sides, by URN, and what becomes of each resource."""

    before: Mapping[str, State]
    after: Mapping[str, State]
    changes: tuple[Change, ...]

    @cached_property
    def deleted(self) -> frozenset[str]:
        """The URNs of those that go and do not come back."""
        return frozenset(each.resource.urn for each in self.changes if each.resource.operation == Operation.DELETE)
