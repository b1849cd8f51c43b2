"""Checks if a machine can work with choices such as market, zone, driver branch and torch.

The input is a `Setup`. The result is `Works`, or `Refused` with the reasons and a fix. `gpu_smoke.compat` has the rules
about GPU, driver and torch. This package adds the rules about machines and driver sources. If the sources say nothing
about a choice, the choice is not refused, but listed as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpu_smoke.compat.rules import pythons

from . import driver_rules, machine_rules, queries
from .models import Machine
from .setup import DRIVER_SOURCES, Change, DriverSource, Finding, Setup

__all__ = ["DRIVER_SOURCES", "DriverSource", "Problem", "Refused", "Setup", "Works", "check", "pythons"]

_STEPS = 5  # the maximum number of changes in one fix; known setups need at most four
_TRIES = 12  # the maximum number of changes of one finding that are tried


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a setup cannot work."""

    rule: str
    choice: str
    """The field of the setup that the problem refers to."""
    text: str
    source: str
    fix: Mapping[str, Any] | None
    """The smallest change that makes the whole setup work, or None if the solver finds no such change.

    The first field of the change solves this problem. Further fields may solve other problems.
    """

    @property
    def hint(self) -> str:
        """The fix as text."""
        return change_text(self.fix) if self.fix else ""


@dataclass(frozen=True, slots=True)
class Works:
    """The result for a setup without problems."""

    setup: Setup
    unknown: tuple[str, ...] = ()
    works = True


@dataclass(frozen=True, slots=True)
class Refused:
    """The result for a setup that cannot work, with all reasons."""

    setup: Setup
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...] = ()
    works = False

    @property
    def reason(self) -> str:
        """All reasons on one line."""
        return "; ".join(problem.text for problem in self.problems)

    @property
    def fix(self) -> Mapping[str, Any] | None:
        """The smallest fix of all problems, or None. With any of these fixes, the whole setup works."""
        fixes = [problem.fix for problem in self.problems if problem.fix]
        return min(fixes, key=len) if fixes else None


def check(machine: str | Machine, **choices: Any) -> Works | Refused:
    """Check if a machine works with these choices. The keyword arguments are fields of `Setup`.

    Raise UnknownName for an unknown machine, market or driver source. Raise ValueError for an invalid torch version or
    compute capability.
    """
    found = queries.machine(machine) if isinstance(machine, str) else machine
    if choices.get("market"):
        choices["market"] = queries.market(choices["market"])
    choices |= {
        device: machine_rules.canonical_name(device, choices[device])
        for device in machine_rules.DEVICE_TYPES
        if choices.get(device)
    }
    return check_setup(Setup(machine=found, **choices))


def check_setup(setup: Setup) -> Works | Refused:
    """Check if a setup works."""
    found = findings(setup)
    unknown = (*machine_rules.unknown(setup), *driver_rules.unknown(setup))
    if not found:
        return Works(setup, unknown)
    problems = (Problem(each.rule, each.choice, each.text, each.source, _fix(setup, each)) for each in found)
    return Refused(setup, tuple(problems), unknown)


def findings(setup: Setup) -> list[Finding]:
    """Return every finding about a setup. If the machine itself cannot be used, nothing else is checked."""
    unusable = list(machine_rules.unusable(setup.machine))
    return unusable or [
        *machine_rules.findings(setup),
        *machine_rules.device_findings(setup),
        *driver_rules.findings(setup),
    ]


def change_text(change: Mapping[str, Any]) -> str:
    """Return a change as text: driver_branch=580, torch=2.9.1+cu126."""
    return ", ".join(f"{key}={value.key if isinstance(value, Machine) else value}" for key, value in change.items())


def _fix(setup: Setup, finding: Finding) -> Change | None:
    """Return the smallest change after which the setup works, or None.

    The search starts with the changes that the finding suggests. If a change leads to another finding, the search adds
    a change that the other finding suggests.
    """
    for steps in range(1, _STEPS + 1):
        for change in _working_changes(setup, finding, steps):
            return change
    return None


def _working_changes(setup: Setup, finding: Finding, steps: int) -> Iterator[Change]:
    """Yield combinations of at most `steps` changes after which the setup works."""
    for change in islice(finding.instead, _TRIES):
        after = setup.changed(change)
        if after == setup:
            continue
        remaining = findings(after)
        effective = {key: getattr(after, key) for key in change if getattr(after, key) != getattr(setup, key)}
        if not remaining:
            yield effective
        elif steps > 1 and not any(each.rule == finding.rule for each in remaining):
            yield from ({**effective, **others} for others in _working_changes(after, remaining[0], steps - 1))
