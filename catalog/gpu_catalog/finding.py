"""What a rule finds wrong with a setup, and what several rules need to say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import queries
from .models import Gpu, Machine

Change = Mapping[str, Any]
"""Choices to be made differently, by field of the setup."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and the choice it is about."""

    rule: str
    choice: str
    text: str
    source: str
    instead: tuple[Change, ...] = field(default=(), compare=False)
    """Changes to try, the nearest first; none of them is a promise."""


def changes(choice: str, values: Iterable[Any]) -> tuple[Change, ...]:
    """Each value as a change of one choice."""
    return tuple({choice: value} for value in values)


def machines_like(machine: Machine) -> list[Machine]:
    """Machines of the same cloud that can do the work: as many GPUs, not on their way out, near in age and size."""

    def distance(other: Machine) -> tuple[Any, ...]:
        here, there = machine.gpu.capability, other.gpu.capability
        age = abs(there[0] * 10 + there[1] - here[0] * 10 - here[1]) if machine.gpu.is_nvidia else there
        size = abs(other.vcpus - machine.vcpus)
        return other.gpu.last_driver_branch is not None, other.architecture != "x86_64", age, size, other.key

    found = queries.machines(cloud=machine.cloud, n1=False)
    return sorted(
        (each for each in found if each.gpu_count >= min(machine.gpu_count, 1) and each.regions), key=distance
    )


def origin(row: Gpu | Machine, fact: str) -> str:
    """Where a fact of a row was read."""
    return cited(source.key for source in queries.sources_of(row, fact))


def cited(keys: Iterable[str]) -> str:
    """Sources in words, each with its date."""
    found = (queries.source(key) for key in keys)
    return "; ".join(f"{source.what}, {source.date}" if source.date else source.what for source in found)
