"""The result of a comparison of the catalog with one source: the facts that agree, differ or cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Fact: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact on which the catalog and a source differ."""

    machine: str
    field: str
    ours: Fact
    theirs: Fact


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A fact of the catalog that the source does not have."""

    machine: str
    field: str
    reason: str


@dataclass(slots=True)
class Comparison:
    """The comparison of one source with the catalog."""

    name: str
    source: str
    about: str  # the question that the comparison answers
    origin: str = ""  # if the catalog took facts from this source: a note, because agreement then proves less
    agree: dict[str, int] = field(default_factory=dict)  # the number of equal facts by field
    differ: list[Difference] = field(default_factory=list)
    uncompared: list[Uncompared] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)

    def compare(self, machine: str, name: str, ours: Fact, theirs: Fact, column: str = "") -> None:
        """Compare one fact and count the result under its name, or under `column` if given.

        For example, each region is a fact of its own, and all are counted under the column "region".
        """
        self.machines.add(machine)
        self.agree.setdefault(column or name, 0)
        if ours == theirs:
            self.agree[column or name] += 1
        else:
            self.differ.append(Difference(machine, name, ours, theirs))

    def skip(self, machine: str, name: str, reason: str) -> None:
        self.uncompared.append(Uncompared(machine, name, reason))

    @property
    def agreeing(self) -> int:
        return sum(self.agree.values())

    @property
    def whole(self) -> int:
        """The number of machines that were compared and have no difference."""
        return len(self.machines - {each.machine for each in self.differ})
