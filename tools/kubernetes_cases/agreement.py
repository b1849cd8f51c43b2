"""Compare the verdicts of the sandbox with the stored verdicts of a real API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.bridged import replaces
from pulumi_sandbox.providers.diff import compare, is_replacing
from pulumi_sandbox.providers.kubernetes.rules import immutable, object_rules
from pulumi_sandbox.providers.kubernetes.schema import validation
from pulumi_sandbox.providers.kubernetes.tables import replacing

from tools.kubernetes_cases.recording import Case

REPLACED = "pulumi-kubernetes replaces the object, so it does not ask for the update"


@dataclass(frozen=True)
class Outcome:
    """The verdict of the sandbox on a case."""

    case: Case
    problems: tuple[str, ...] = ()
    excluded: str = ""

    @property
    def agrees(self) -> bool:
        return self.case.server_accepts is not bool(self.problems)

    @property
    def says_the_same(self) -> bool:
        """Whether the messages are the same. Their paths may differ: the API server names list elements by keys."""
        here, there = ({one.partition(": ")[2] for one in problems} for problems in (self.problems, self.case.answer))
        return here == there


def outcomes(cases: Iterable[Case]) -> Iterator[Outcome]:
    for case in cases:
        if case.excluded:
            yield Outcome(case, excluded=case.excluded)
        elif problems := _texts(created(case.new)):
            # The provider checks the inputs before it compares them with the old ones.
            yield Outcome(case, problems)
        elif case.old is None:
            yield Outcome(case)
        elif _is_replaced(case.old, case.new):
            yield Outcome(case, excluded=REPLACED)
        else:
            group, kind, _ = _type_of(case.new)
            yield Outcome(case, _texts(immutable.check(group, kind, case.old, case.new)))


def created(given: dict[str, Any]) -> Iterable[Any]:
    """Return the problems of a new object."""
    group, kind, inputs = _type_of(given)
    return list(validation.check(given["apiVersion"], kind, inputs)) or object_rules.check(group, kind, inputs)


def _is_replaced(old: dict[str, Any], new: dict[str, Any]) -> bool:
    group, kind, _ = _type_of(new)
    token = f"kubernetes:{group}:{kind}"
    table = {token: replacing(group, kind, {})}
    return any(is_replacing(one, lambda path: replaces(table, token, path)) for one in compare(old, new))


def _type_of(given: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    group, slash, _ = str(given["apiVersion"]).partition("/")
    return (group if slash else "core"), str(given["kind"]), given


def _texts(problems: Iterable[Any]) -> tuple[str, ...]:
    return tuple(f"{one.path}: {one.text}" for one in problems)
