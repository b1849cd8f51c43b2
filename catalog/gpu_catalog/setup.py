"""The input and the results of the rules of the solver.

A `Setup` is one machine with choices such as market, zone, driver and torch. A `Finding` is one problem of a setup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, get_args

from . import data_files, queries
from .errors import UnknownName
from .models import Architecture, Gpu, Machine

DriverSource = Literal["prebuilt", "accelerator-image", "installer", "cos", "al2023", "bottlerocket", "operator"]
DRIVER_SOURCES: tuple[DriverSource, ...] = get_args(DriverSource)


class UnknownDriverSource(UnknownName):
    kind = "driver source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A machine and the choices for it. A choice with the value None is not checked."""

    machine: Machine
    market: str | None = None
    zone: str | None = None
    """A zone or a region."""
    boot_disk: str | None = None
    nic: str | None = None
    driver_source: DriverSource | None = None
    driver_branch: int | None = None
    kernel_module: str | None = None
    """The kernel module: open or proprietary."""
    ami_type: str | None = None
    torch: str | None = None
    python: tuple[int, int] | None = None

    def changed(self, change: Mapping[str, Any]) -> Setup:
        """Return the setup with other choices. An AMI type is only changed if the setup has one."""
        wanted = {key: value for key, value in change.items() if key != "ami_type" or self.ami_type}
        return replace(self, **wanted)

    @property
    def branch(self) -> int | None:
        """The chosen driver branch. Without a chosen branch, it is the default branch of the driver source."""
        if self.driver_branch or not self.driver_source:
            return self.driver_branch
        return driver_source(self.driver_source).default_of(self.machine)


@dataclass(frozen=True, slots=True)
class DriverSourceInfo:
    """An image, an add-on or an installer that brings the NVIDIA driver."""

    name: DriverSource
    clouds: tuple[str, ...]
    architectures: tuple[Architecture, ...]
    branches: tuple[int, ...] | None
    """The driver branches; None if no list of the branches was found."""
    default: int | None
    """The default branch; None if it is unknown."""
    defaults: Mapping[str, int]
    """The default branches of machine families whose default differs from `default`."""
    what: str
    """A description for messages."""
    sources: tuple[str, ...]
    """The keys of the sources of `branches`."""

    def default_of(self, machine: Machine) -> int | None:
        """Return the default branch of a machine."""
        return self.defaults.get(machine.family, self.default)


def driver_source(name: str) -> DriverSourceInfo:
    """Return a driver source by its name."""
    if name not in _sources():
        raise UnknownDriverSource(name, _sources())
    return _sources()[name]


def driver_sources_for(machine: Machine) -> tuple[DriverSourceInfo, ...]:
    """Return the driver sources for the cloud and the processor of a machine."""
    found = _sources().values()
    return tuple(each for each in found if machine.cloud in each.clouds and machine.architecture in each.architectures)


@cache
def _sources() -> dict[str, DriverSourceInfo]:
    return {
        row["driver_source"]: DriverSourceInfo(
            name=row["driver_source"],
            clouds=tuple(row["clouds"]),
            architectures=tuple(row["architectures"]),
            branches=None if row["branches"] is None else tuple(row["branches"]),
            default=row["default"],
            defaults=row.get("defaults", {}),
            what=row["what"],
            sources=tuple(row["sources"]["branches"]),
        )
        for row in data_files.rows("driver_sources")
    }


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
