"""Counting what two sides say about the same facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Fact: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact on which the catalog and a source differ."""

    machine: str
    field: str
    ours: Fact
    theirs: Fact


@dataclass(frozen=True, slots=True)
class Uncompared:
    """One fact of the catalog that the source has nothing to say on."""

    machine: str
    field: str
    reason: str


@dataclass(slots=True)
class Comparison:
    """One source against the catalog."""

    name: str
    source: str
    about: str
    origin: str = ""  # what makes agreement worth less: that the catalog has its facts from there
    agree: dict[str, int] = field(default_factory=dict)  # field -> facts that are equal
    differ: list[Difference] = field(default_factory=list)
    uncompared: list[Uncompared] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)

    def compare(self, machine: str, name: str, ours: Fact, theirs: Fact, column: str = "") -> None:
        """Compare one fact; `column` is what it counts under when its name is a region or another value."""
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
        """Machines that were compared and differ in nothing."""
        return len(self.machines - {each.machine for each in self.differ})
