"""torch wheels: the parts of their names, the capabilities they were compiled for, and the distance between them."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import data

_WHEEL = re.compile(r"(\d+\.\d+)(\.\d+)?(?:\+([a-z]+[0-9.]*))?")
_CUDA = re.compile(r"cu(\d{1,2})(\d)")


class Wheel(NamedTuple):
    """A torch wheel: release (2.9), full version (2.9.1) and build (cu128; cpu; empty for the build on PyPI)."""

    release: str
    version: str
    build: str

    @property
    def cuda(self) -> tuple[int, int] | None:
        """The CUDA version that the wheel is built for."""
        found = _CUDA.fullmatch(self.build)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def released(self) -> bool:
        """True if the tables have its patch release."""
        return int(self.version.rpartition(".")[2]) <= data.PATCHES.get(self.release, 0)

    def __str__(self) -> str:
        return f"{self.version}+{self.build}" if self.build else self.version


def parse_wheel(text: str, machine: str = "x86_64") -> Wheel:
    """Parse the name of a wheel. Without a build it is the one that PyPI has for this machine, if that is known."""
    found = _WHEEL.fullmatch(text)
    if not found:
        raise ValueError(f"not a torch version: {text!r}")
    release, patch, build = found.groups()
    row = data.RELEASES[machine].get(release)
    build = build or (row.default or "cpu" if row else "?")
    return Wheel(release, release + (patch or ".0"), build.strip("?"))


def kernels(wheel: Wheel, machine: str = "x86_64") -> tuple[int, ...] | None:
    """Return the capabilities that a wheel was compiled for; None if they are unknown."""
    release = data.RELEASES[machine].get(wheel.release)
    return release.builds.get(wheel.build) if release else None


def by_distance(wheel: Wheel, machine: str) -> list[Wheel]:
    """Return other wheels: the same release first, then the nearest. PyPI's build comes first, then the newest CUDA."""
    here = _order(wheel.release)
    order = sorted(data.RELEASES[machine], key=lambda each: (abs(_order(each) - here), -_order(each)))
    return [
        found._replace(version=wheel.version) if found.release == wheel.release and wheel.released else found
        for each in order
        for found in _sure(each, machine)
    ]


def newest_first(machine: str = "x86_64") -> list[Wheel]:
    """Return every wheel whose kernels were read, newest release first.

    PyPI's build comes first, then the newest CUDA.
    """
    return [found for each in _newest(machine) for found in _sure(each, machine)]


def every(machine: str = "x86_64") -> list[Wheel]:
    """Return every wheel of the table, the newest release first, then the newest CUDA."""
    table = data.RELEASES[machine]
    return [Wheel(each, f"{each}.0", build) for each in _newest(machine) for build in sorted(table[each].builds)[::-1]]


def _newest(machine: str) -> list[str]:
    return sorted(data.RELEASES[machine], key=_order, reverse=True)


def _sure(release: str, machine: str) -> list[Wheel]:
    row = data.RELEASES[machine][release]
    builds = sorted({*row.builds} - {*row.unsure}, key=lambda build: (build == row.default, build), reverse=True)
    return [Wheel(release, f"{release}.0", build) for build in builds]


def _order(release: str) -> int:
    major, minor = release.split(".")
    return int(major) * 100 + int(minor)
