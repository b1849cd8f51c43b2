"""The danger rules, one module for each kind, and their application to the changes of a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...engine.states import STACK, Change, StackStates, State
from ...model import Finding, Operation, Resource
from ..danger_rule import RULES
from . import data_loss, exposure, identity, jobs, secrecy

_CHECKS: tuple[Callable[[Change, StackStates], Iterator[Finding]], ...] = (
    jobs.check,
    jobs.check_reuse,
    secrecy.check,
    exposure.check,
    data_loss.check,
    identity.check,
)
_ORDER = {rule.name: number for number, rule in enumerate(RULES)}


def find(before: Mapping[str, State], after: Mapping[str, State], resources: Sequence[Resource]) -> list[Finding]:
    """Return every danger in the changes, in the order of the table of rules.

    `before` and `after` have all resources of base and head by URN, also unchanged ones. A moved resource is in
    `before` under its old URN. No content of the states raises an error.
    """
    changes = [Change(each, before.get(each.moved_from or each.urn), after.get(each.urn)) for each in resources]
    changes += _stacks(before, after, {each.urn for each in resources})
    stack_states = StackStates(before, after, tuple(changes))
    found = [*jobs.check_gates(stack_states)]
    for change in changes:
        changes_something = change.resource.operation != Operation.SAME or change.type == STACK or _unguarded(change)
        checks = _CHECKS if changes_something else (secrecy.exposed,)
        found += [finding for check in checks for finding in check(change, stack_states)]
    return sorted(dict.fromkeys(found), key=lambda each: (_ORDER[each.rule], each.urn, each.text))


def _stacks(before: Mapping[str, State], after: Mapping[str, State], known: set[str]) -> list[Change]:
    """Return the stack itself, for its outputs. A report can leave it out, because it is not a cloud resource."""
    urns = [urn for urn, state in after.items() if state.type == STACK and urn not in known]
    return [
        Change(Resource(urn=urn, type=STACK, name="outputs", operation=Operation.SAME), before.get(urn), after[urn])
        for urn in urns
    ]


def _unguarded(change: Change) -> bool:
    """Return True if protect or retainOnDelete is removed, or if the stack stops managing the resource.

    Neither changes a property, so the engine reports the resource as the same.
    """
    before, after = change.before, change.after
    if before is None or after is None:
        return False
    given_up = after.external and not before.external
    return given_up or (before.protect and not after.protect) or (before.retained and not after.retained)
