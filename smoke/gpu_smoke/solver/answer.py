"""The answer: the verdict, the reasons, setups that work, and a row for each wheel of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..compat import rules, wheels
from ..compat.data import RELEASES
from ..compat.rules import Pair, Problem
from ..data.drivers import ORIGINS
from .question import Question

SCHEMA = "smoke-check/1"


@dataclass(frozen=True)
class Way:
    """A setup that works: what to install, and where its driver comes from."""

    torch: str
    driver_branch: int
    module: str  # empty if either module works
    install: str
    drivers: dict[str, str]


@dataclass(frozen=True)
class Row:
    """The result for one wheel on the given GPU and driver."""

    torch: str
    works: bool
    reasons: tuple[str, ...]
    sure: bool


@dataclass(frozen=True)
class Answer:
    """The answer to a question. `torch` and `driver` are the given ones, or the chosen ones if they were left out."""

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
        """Return the answer as JSON has it."""
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
    """Choose the values that were left out, apply the rules, and find setups that work if this one does not."""
    # If nothing works with the given driver, choose a torch that works with another: the torch is not at fault.
    chosen = _choose(question, question.driver) or _choose(question, "")
    newest = wheels.newest_first(question.machine)[0]
    driver = question.driver or str(chosen.branch if chosen else rules.PREFERRED_BRANCH)
    torch = question.torch or str((chosen and chosen.torch) or newest)
    module = question.module or None
    verdict = rules.check(question.capability, driver, torch, module=module, **_rest(question))
    rows = () if question.torch else tuple(_rows(question, driver))
    return Answer(question, driver, torch, verdict.problems, verdict.unknown, _ways(question, driver, torch), rows)


def _choose(question: Question, driver: str) -> Pair | None:
    return rules.choose(question.capability, driver or None, question.torch or None, **_rest(question))


def _rest(question: Question) -> dict[str, Any]:
    return {"machine": question.machine, "python": question.python, "card": question.card}


def _ways(question: Question, driver: str, torch: str) -> tuple[Way, ...]:
    """Return the requested setup if it works apart from the kernel module, else the nearest that do."""
    wheel = wheels.parse_wheel(torch, question.machine)
    if rules.check(question.capability, driver, torch, **_rest(question)).works:
        pairs: tuple[Pair, ...] = (Pair(rules.branch_of(driver), str(wheel)),)
    else:
        pairs = rules.ways(question.capability, rules.branch_of(driver), wheel, **_rest(question))
    return tuple(_way(question, pair.branch, pair.torch) for pair in pairs if pair.branch and pair.torch)


def _way(question: Question, branch: int, torch: str) -> Way:
    arch = rules.arch_of(question.capability)
    module = arch.modules[0] if arch and len(arch.modules) == 1 else ""
    return Way(torch, branch, module, install(torch, question.machine), _drivers(branch, question.machine))


def install(torch: str, machine: str) -> str:
    """Return the command that installs a wheel. PyPI has one build of each release, and uv finds the others."""
    wheel = wheels.parse_wheel(torch, machine)
    row = RELEASES[machine].get(wheel.release)
    if row is None or wheel.build == row.default or not wheel.cuda:
        return f"python3 -m pip install torch=={wheel.version}"
    return f"uv pip install --torch-backend {wheel.build} torch=={wheel.version}"


def _drivers(branch: int, machine: str) -> dict[str, str]:
    rows = (row for row in ORIGINS.values() if machine in row.machines and branch in row.branches)
    return {row.name: row.branches[branch] for row in rows}


def _rows(question: Question, driver: str) -> Iterator[Row]:
    """Check every wheel of the tables, the newest first."""
    for wheel in wheels.every(question.machine):
        verdict = rules.check(question.capability, driver, str(wheel), **_rest(question))
        reasons = tuple(problem.text for problem in verdict.problems)
        sure = wheel.build not in RELEASES[question.machine][wheel.release].unsure
        yield Row(str(wheel), verdict.works, reasons, sure)
