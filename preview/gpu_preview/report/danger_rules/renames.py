"""The rule `like-a-rename`: a resource is deleted, and one with similar inputs is created under another name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diff.placeholders import is_unknown
from ...diff.value_pairs import leaves
from ...engine.states import Change, StackStates, State
from ...model import Finding, Operation
from ..danger_rule import RENAME

_SHARED = 0.5
"""The share of equal inputs above which two resources are similar. This project chose the value."""


def check(stack_states: StackStates) -> Iterator[Finding]:
    """Check the resources whose parent stays: the resources in a renamed component are renamed with it."""
    pairs: dict[tuple[str, str], tuple[list[Change], list[Change]]] = {}
    for change in stack_states.changes:
        state = change.before if change.resource.operation == Operation.DELETE else change.after
        if state is None or change.resource.operation not in (Operation.DELETE, Operation.CREATE):
            continue
        old, new = pairs.setdefault((change.type, state.parent), ([], []))
        (old if change.resource.operation == Operation.DELETE else new).append(change)
    for (_, parent), (old, new) in pairs.items():
        if (
            len(old) == len(new) == 1
            and parent not in stack_states.deleted
            and _similar(old[0].before, new[0].after, stack_states)
        ):
            new_name = new[0].resource.name
            yield RENAME.found(new[0], f"{old[0].name} is deleted and {new_name} is created: this may be a rename")


def _similar(before: State | None, after: State | None, stack_states: StackStates) -> bool:
    if before is None or after is None:
        return False
    if not before.inputs and not after.inputs:  # A component without inputs counts as similar if it had children.
        return any(each.parent == before.urn for each in stack_states.before.values())
    old, new = _inputs(before.inputs), _inputs(after.inputs)
    shared = sum(path in new and (new[path] == value or is_unknown(new[path])) for path, value in old.items())
    return bool(shared >= _SHARED * max(len(old), len(new)))


def _inputs(inputs: Mapping[str, Any]) -> dict[Any, Any]:
    return {path: value for path, value in leaves(inputs) if path[:1] != ("__defaults",)}
