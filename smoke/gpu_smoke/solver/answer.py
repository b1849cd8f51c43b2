"""The answer of `gpu-smoke check`: if a combination works, the reasons if not, and combinations that work.

A combination is a GPU, a driver and a torch wheel. compat/rules.py has the rules, and defines branch and card.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..compat import rules, wheels
from ..compat.data import RELEASES
from ..compat.rules import Pair, Problem, Verdict
from ..data.drivers import ORIGINS
from .question import Question

SCHEMA = "smoke-check/1"
# Problems of a driver that are certain even if its branch is in no table.
_CERTAIN = ("driver.before-gpu", "driver.dropped-gpu")


@dataclass(frozen=True)
class Way:
    """A combination that works: the torch to install, and the driver with its sources."""

    torch: str
    driver_branch: int
    module: str  # the kernel module; empty if either one works
    install: str
    drivers: dict[str, str]


@dataclass(frozen=True)
class Row:
    """The result for one wheel on the given GPU and driver. `sure` is False if its list of GPUs was not read."""

    torch: str
    works: bool
    reasons: tuple[str, ...]
    sure: bool


@dataclass(frozen=True)
class Answer:
    """The answer to a question. `torch` and `driver` are the given values, or the chosen values if none was given."""

    question: Question
    driver: str
    torch: str
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...]
    ways: tuple[Way, ...]
    rows: tuple[Row, ...]

    @property
    def works(self) -> bool:
        """True if there is no known problem."""
        return not self.problems

    def record(self) -> dict[str, Any]:
        """Return the answer in the form of its JSON."""
        asked = asdict(self.question)
        asked["python"] = ".".join(map(str, self.question.python)) if self.question.python else ""
        del asked["json"]
        return {
            "schema": SCHEMA,
            "works": self.works,
            "asked": asked,
            "driver": self.driver,
            "torch": self.torch,
            "problems": [problem._asdict() for problem in self.problems],
            "unknown": list(self.unknown),
            "ways": [asdict(way) for way in self.ways],
            "wheels": [asdict(row) for row in self.rows],
        }


def answer(question: Question) -> Answer:
    """Choose the values that were not given, apply the rules, and find combinations that work if this one does not."""
    # If no torch works with the given driver, choose a torch for another driver, so that only the driver is reported.
    chosen = _choose(question, question.driver) or _choose(question, "")
    newest = wheels.newest_first(question.machine)[0]
    driver = question.driver or str(chosen.branch if chosen else rules.PREFERRED_BRANCH)
    torch = question.torch or str((chosen and chosen.torch) or newest)
    verdict = _check(question, driver, torch, question.module)
    ways = _ways(question, driver, torch)
    rows = () if question.torch else tuple(_rows(question, driver))
    return Answer(question, driver, torch, verdict.problems, verdict.unknown, ways, rows)


def _check(question: Question, driver: str, torch: str, module: str = "") -> Verdict:
    """Apply the rules. A driver branch that no table has is a problem here, because a user may have mistyped it."""
    verdict = rules.check(question.capability, driver, torch, module=module or None, **_rest(question))
    branch = rules.branch_of(driver)
    nearest = " and ".join(map(str, rules.nearest_branches(branch)))
    if not nearest or any(problem.rule in _CERTAIN for problem in verdict.problems):
        return verdict
    text = rules.not_in_table(branch)
    mistyped = Problem("driver.unknown-branch", f"{text}: the nearest known branches are {nearest}")
    return Verdict((mistyped, *verdict.problems), tuple(each for each in verdict.unknown if each != text))


def _choose(question: Question, driver: str, torch: str | None = None) -> Pair | None:
    wanted = question.torch if torch is None else torch
    return rules.choose(question.capability, driver or None, wanted or None, **_rest(question))


def _rest(question: Question) -> dict[str, Any]:
    return {"machine": question.machine, "python": question.python, "card": question.card}


def _ways(question: Question, driver: str, torch: str) -> tuple[Way, ...]:
    """Return the given combination if it works, apart from the kernel module, or else the nearest ones that work."""
    wheel = wheels.parse_wheel(torch, question.machine)
    branch = rules.branch_of(driver)
    pairs: tuple[Pair | None, ...]
    if _check(question, driver, torch).works:
        pairs = (Pair(branch, str(wheel)),)
    elif rules.nearest_branches(branch):  # the driver has to change
        pairs = (_choose(question, "", str(wheel)) or _choose(question, "", ""),)
    else:
        pairs = rules.alternatives(question.capability, branch, wheel, **_rest(question))
    return tuple(_way(question, pair.branch, pair.torch) for pair in pairs if pair and pair.branch and pair.torch)


def _way(question: Question, branch: int, torch: str) -> Way:
    arch = rules.arch_of(question.capability)
    module = arch.modules[0] if arch and len(arch.modules) == 1 else ""
    return Way(torch, branch, module, install(torch, question.machine), _drivers(branch, question.machine))


def install(torch: str, machine: str) -> str:
    """Return the command that installs a wheel. pip finds PyPI's one build of each release, and uv all builds."""
    wheel = wheels.parse_wheel(torch, machine)
    row = RELEASES[machine].get(wheel.release)
    if row is None or wheel.build == row.default or not wheel.cuda:
        return f"python3 -m pip install torch=={wheel.version}"
    return f"uv pip install --torch-backend {wheel.build} torch=={wheel.version}"


def _drivers(branch: int, machine: str) -> dict[str, str]:
    """Return the sources of a driver branch: the name of each, and what to request there."""
    rows = (row for row in ORIGINS.values() if machine in row.machines and branch in row.branches)
    return {row.name: row.branches[branch] for row in rows}


def _rows(question: Question, driver: str) -> Iterator[Row]:
    """Check every wheel of the tables, the newest first."""
    for wheel in wheels.every(question.machine):
        verdict = _check(question, driver, str(wheel))
        reasons = tuple(problem.text for problem in verdict.problems)
        sure = wheel.build not in RELEASES[question.machine][wheel.release].unread
        yield Row(str(wheel), verdict.works, reasons, sure)
