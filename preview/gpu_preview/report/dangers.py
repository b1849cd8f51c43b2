"""What a reviewer must not miss among the changes of a stack, by the rules of danger_rules/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..engine.states import STACK, Change, State, World
from ..model import Finding, Operation, Resource
from .danger_rule import RULES
from .danger_rules import data_loss, exposure, gates, identity, jobs, pins, renames, secrecy

_CHECKS: tuple[Callable[[Change, World], Iterator[Finding]], ...] = (
    jobs.check,
    secrecy.check,
    exposure.check,
    data_loss.check,
    identity.check,
    pins.check,
)
_ORDER = {rule.name: number for number, rule in enumerate(RULES)}


def find(before: Mapping[str, State], after: Mapping[str, State], resources: Sequence[Resource]) -> list[Finding]:
    """Every danger in what changes, in the order of the table of rules.

    `before` and `after` are the states of both sides by their URNs, the unchanged too; a resource that moved is found
    in `before` by the URN it had. Nothing is raised, whatever the states hold.
    """
    changes = [Change(each, before.get(each.moved_from or each.urn), after.get(each.urn)) for each in resources]
    changes += _stacks(before, after, {each.urn for each in resources})
    world = World(before, after, tuple(changes))
    found = [*gates.check(world), *renames.check(world)]
    for change in changes:
        changes_something = change.resource.operation != Operation.SAME or change.type == STACK or _unguarded(change)
        checks = _CHECKS if changes_something else (secrecy.exposed,)
        found += [finding for check in checks for finding in check(change, world)]
    return sorted(dict.fromkeys(found), key=lambda each: (_ORDER[each.rule], each.urn, each.text))


def _stacks(before: Mapping[str, State], after: Mapping[str, State], known: set[str]) -> list[Change]:
    """The stack itself, whose outputs are read too; a report may leave it out, because it is no resource of a cloud."""
    urns = [urn for urn, state in after.items() if state.type == STACK and urn not in known]
    return [
        Change(Resource(urn=urn, type=STACK, name="outputs", operation=Operation.SAME), before.get(urn), after[urn])
        for urn in urns
    ]


def _unguarded(change: Change) -> bool:
    """Taking protect or retainOnDelete off changes no property, so the engine calls the resource the same; and so it
    does where the stack manages it no longer."""
    before, after = change.before, change.after
    if before is None or after is None:
        return False
    given_up = after.external and not before.external
    return given_up or (before.protect and not after.protect) or (before.retained and not after.retained)
