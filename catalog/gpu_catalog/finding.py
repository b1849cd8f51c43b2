"""Findings of the rules about a setup, and helpers to create them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import queries
from .models import Gpu, Machine

Change = Mapping[str, Any]
"""A change of a setup: new values by field."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a setup, and the field that it refers to."""

    rule: str
    """The id of the rule, such as driver.before-gpu."""
    choice: str
    """The field of the setup."""
    text: str
    source: str
    instead: tuple[Change, ...] = field(default=(), compare=False)
    """Changes that may solve the problem, the smallest first. The solver tries them."""


def changes(choice: str, values: Iterable[Any]) -> tuple[Change, ...]:
    """Return one change of a field for each value."""
    return tuple({choice: value} for value in values)


def machines_like(machine: Machine) -> list[Machine]:
    """Return machines of the same cloud, most suitable first.

    The order is: GPUs that current drivers support, then x86_64, then the nearest GPU generation, then the nearest
    number of vCPUs.
    """

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
    """Return the sources of a row's fact as text."""
    return cited(source.key for source in queries.sources_of(row, fact))


def cited(keys: Iterable[str]) -> str:
    """Return sources as text, each with its date."""
    found = (queries.source(key) for key in keys)
    return "; ".join(f"{source.what}, {source.date}" if source.date else source.what for source in found)
