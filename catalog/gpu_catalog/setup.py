"""The input of the solver: a `Setup` is one machine with choices such as market, zone, driver and torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

from . import data_files
from .errors import UnknownName
from .models import Architecture, Machine

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
    mig_profile: str | None = None
    """The MIG profile by NVIDIA's name, such as 1g.10gb."""
    gke_partition_size: str | None = None
    """The MIG profile by GKE's name. GKE does not offer all profiles, and names some differently."""
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
