"""`like-a-rename`: what goes under one name and comes under another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diff.placeholders import is_unknown
from ...diff.value_pairs import leaves
from ...engine.states import Change, State, World
from ...model import Finding, Operation
from ..danger_rule import RENAME

_SHARED = 0.5
"""The least part of the inputs that two have in common; a figure of ours."""


def check(world: World) -> Iterator[Finding]:
    """The topmost only: what is in a component that is renamed is renamed with it."""
    gone = {change.resource.urn for change in world.changes if change.resource.operation == Operation.DELETE}
    pairs: dict[tuple[str, str], tuple[list[Change], list[Change]]] = {}
    for change in world.changes:
        state = change.before if change.resource.operation == Operation.DELETE else change.after
        if state is None or change.resource.operation not in (Operation.DELETE, Operation.CREATE):
            continue
        old, new = pairs.setdefault((change.type, state.parent), ([], []))
        (old if change.resource.operation == Operation.DELETE else new).append(change)
    for (_, parent), (old, new) in pairs.items():
        if len(old) == len(new) == 1 and parent not in gone and _alike(old[0].before, new[0].after, world):
            was, now = old[0].resource.name, new[0].resource.name
            yield RENAME.found(new[0], f"{old[0].name} goes and {now} comes: it may be a rename of {was}")


def _alike(before: State | None, after: State | None, world: World) -> bool:
    if before is None or after is None:
        return False
    if not before.inputs and not after.inputs:  # of a component that tells none, what is in it counts
        return any(each.parent == before.urn for each in world.before.values())
    was, now = _inputs(before.inputs), _inputs(after.inputs)
    shared = sum(path in now and (now[path] == value or is_unknown(now[path])) for path, value in was.items())
    return bool(shared >= _SHARED * max(len(was), len(now)))


def _inputs(inputs: Mapping[str, Any]) -> dict[Any, Any]:
    return {path: value for path, value in leaves(inputs) if path[:1] != ("__defaults",)}
