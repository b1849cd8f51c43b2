"""What is asked of the solver: one machine, and how it is bought, booted and used."""

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
    """A machine and what is chosen about it; what is None was not chosen and is not asked."""

    machine: Machine
    market: str | None = None
    zone: str | None = None
    """A zone or a region."""
    boot_disk: str | None = None
    nic: str | None = None
    driver_source: DriverSource | None = None
    driver_branch: int | None = None
    kernel_module: str | None = None
    """open or proprietary."""
    ami_type: str | None = None
    mig_profile: str | None = None
    """As NVIDIA names it, such as 1g.10gb."""
    gke_partition_size: str | None = None
    """As GKE names it: not all profiles, and some in other words."""
    torch: str | None = None
    python: tuple[int, int] | None = None

    def changed(self, change: Mapping[str, Any]) -> Setup:
        """The same with other choices. An AMI is not chosen where none was."""
        wanted = {key: value for key, value in change.items() if key != "ami_type" or self.ami_type}
        return replace(self, **wanted)

    @property
    def branch(self) -> int | None:
        """The driver branch it boots with: the one asked for, else the one its source brings."""
        if self.driver_branch or not self.driver_source:
            return self.driver_branch
        return driver_source(self.driver_source).default_of(self.machine)


@dataclass(frozen=True, slots=True)
class DriverSourceInfo:
    """Where a driver comes from."""

    name: DriverSource
    clouds: tuple[str, ...]
    architectures: tuple[Architecture, ...]
    branches: tuple[int, ...] | None
    """None where no list of them was found."""
    default: int | None
    defaults: Mapping[str, int]
    """Other defaults, by family."""
    what: str
    sources: tuple[str, ...]
    """Source keys."""

    def default_of(self, machine: Machine) -> int | None:
        """The branch a machine gets without asking."""
        return self.defaults.get(machine.family, self.default)


def driver_source(name: str) -> DriverSourceInfo:
    """The driver source of that name."""
    if name not in _sources():
        raise UnknownDriverSource(name, _sources())
    return _sources()[name]


def driver_sources_for(machine: Machine) -> tuple[DriverSourceInfo, ...]:
    """The driver sources that exist for a machine's cloud and processor."""
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
