"""The fields of resources in the engine's digest (`pulumi preview --json`) that the danger rules use."""

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
    """One resource in one revision. Values of an unexpected type are left out."""

    urn: str
    type: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The inputs. placeholders.py has the markers of secret and unknown values."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    """URNs."""
    protect: bool = False
    retained: bool = False
    """True if the engine removes the resource from the state without deleting it in the cloud (retainOnDelete)."""
    external: bool = False
    """True if the stack only reads the resource and does not manage it."""

    @classmethod
    def of(cls, found: Any) -> State:
        """Return the state in an `oldState` or `newState` of the digest."""
        state: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
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
        )


@dataclass(frozen=True)
class Change:
    """One resource of the report with its two states. None if a revision has no such resource."""

    resource: Resource
    before: State | None
    after: State | None

    @property
    def type(self) -> str:
        return self.resource.type

    @property
    def name(self) -> str:
        """The name of the resource in a sentence."""
        return f"{self.type.rpartition(':')[2]} {self.resource.name}"

    @property
    def ends(self) -> str:
        """`is deleted` or `is replaced`, or an empty text if the resource stays in the cloud."""
        if self.before is None or self.before.retained or self.before.external:
            return ""
        return {Operation.DELETE: "is deleted", Operation.REPLACE: "is replaced"}.get(self.resource.operation, "")

    @cached_property
    def inputs(self) -> tuple[ValuePair, ...]:
        """Every input value in base and head. A deleted resource has none."""
        if self.after is None:
            return ()
        return tuple(pairs(self.before.inputs if self.before else {}, self.after.inputs))


@dataclass(frozen=True)
class StackStates:
    """All resources of a stack in base (`before`) and head (`after`), by URN, and their changes."""

    before: Mapping[str, State]
    after: Mapping[str, State]
    changes: tuple[Change, ...]

    @cached_property
    def deleted(self) -> frozenset[str]:
        """The URNs of resources that are deleted and not created again."""
        return frozenset(each.resource.urn for each in self.changes if each.resource.operation == Operation.DELETE)
