"""Whether a machine can be bought, booted and used as asked; if not, why not, and the nearest way that it can.

The GPU, the driver and torch are judged by `gpu_smoke.compat`; what the machine and the driver's source add is here.
Nothing is refused that is merely unknown: it is listed as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpu_smoke.compat.rules import pythons

from . import device_types, driver_rules, machine_rules, queries
from .finding import Change, Finding
from .models import Machine
from .setup import DRIVER_SOURCES, DriverSource, Setup

__all__ = ["DRIVER_SOURCES", "DriverSource", "Problem", "Refused", "Setup", "Works", "check", "pythons"]

_STEPS = 5  # changes that one fix may need; known setups need at most four
_TRIES = 12  # how many of a finding's changes are looked at


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why not."""

    rule: str
    choice: str
    """Which of the setup's fields it is about."""
    text: str
    source: str
    fix: Mapping[str, Any] | None
    """Choices with which all of it works, this problem's own first; None where nothing near does."""

    @property
    def hint(self) -> str:
        """The fix in words."""
        return change_text(self.fix) if self.fix else ""


@dataclass(frozen=True, slots=True)
class Works:
    """Nothing speaks against it."""

    setup: Setup
    unknown: tuple[str, ...] = ()
    works = True


@dataclass(frozen=True, slots=True)
class Refused:
    """It cannot work, for every one of these reasons."""

    setup: Setup
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...] = ()
    works = False

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(problem.text for problem in self.problems)

    @property
    def fix(self) -> Mapping[str, Any] | None:
        """The nearest choices with which it works."""
        fixes = [problem.fix for problem in self.problems if problem.fix]
        return min(fixes, key=len) if fixes else None


def check(machine: str | Machine, **choices: Any) -> Works | Refused:
    """Whether a machine works with these choices, whose names are those of `Setup`'s fields.

    UnknownName for a machine, market or driver source that does not exist; ValueError for a torch version, or a
    compute capability, that cannot be read.
    """
    found = queries.machine(machine) if isinstance(machine, str) else machine
    if choices.get("market"):
        choices["market"] = queries.market(choices["market"])
    choices |= {
        device: device_types.canonical_name(device, choices[device])
        for device in device_types.DEVICE_TYPES
        if choices.get(device)
    }
    return check_setup(Setup(machine=found, **choices))


def check_setup(setup: Setup) -> Works | Refused:
    """The same for choices that are a `Setup` already."""
    wrong = findings(setup)
    open_questions = (*machine_rules.unknown(setup), *driver_rules.unknown(setup))
    if not wrong:
        return Works(setup, open_questions)
    problems = (Problem(each.rule, each.choice, each.text, each.source, _fix(setup, each)) for each in wrong)
    return Refused(setup, tuple(problems), open_questions)


def findings(setup: Setup) -> list[Finding]:
    """Everything that is wrong. Of a machine that is none to choose, nothing else is asked."""
    first = list(machine_rules.usable(setup.machine))
    return first or [*machine_rules.findings(setup), *device_types.findings(setup), *driver_rules.findings(setup)]


def change_text(change: Mapping[str, Any]) -> str:
    """A change as one writes it: driver_branch=580, torch=2.9.1+cu126."""
    return ", ".join(f"{key}={value.key if isinstance(value, Machine) else value}" for key, value in change.items())


def _fix(setup: Setup, finding: Finding) -> Change | None:
    """The fewest changes after which nothing is wrong, beginning with one that this finding suggests."""
    for steps in range(1, _STEPS + 1):
        for change in _working_changes(setup, finding, steps):
            return change
    return None


def _working_changes(setup: Setup, finding: Finding, steps: int) -> Iterator[Change]:
    for change in islice(finding.instead, _TRIES):
        after = setup.changed(change)
        if after == setup:
            continue
        wrong = findings(after)
        effective = {key: getattr(after, key) for key in change if getattr(after, key) != getattr(setup, key)}
        if not wrong:
            yield effective
        elif steps > 1 and not any(each.rule == finding.rule for each in wrong):
            yield from ({**effective, **rest} for rest in _working_changes(after, wrong[0], steps - 1))
