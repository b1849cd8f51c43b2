"""torch wheels: their names, the compute capabilities they were compiled for, and the order in which to try them."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import data

_WHEEL = re.compile(r"(\d+\.\d+)(\.\d+)?(?:\+([a-z]+[0-9.]*))?")
_CUDA = re.compile(r"cu(\d{1,2})(\d)")


class Wheel(NamedTuple):
    """A torch wheel: release (2.9), version (2.9.1) and build (cu128 or cpu; empty if the build on PyPI is unknown)."""

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
        """True if the tables have this patch release."""
        return int(self.version.rpartition(".")[2]) <= data.PATCHES.get(self.release, 0)

    def __str__(self) -> str:
        return f"{self.version}+{self.build}" if self.build else self.version


def parse_wheel(text: str, machine: str = "x86_64") -> Wheel:
    """Parse the version of a wheel. Without a build in the text, the build is PyPI's for this machine, if known."""
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
    """Return the wheels to try instead of this one: first those of the same release, then of the nearest releases.

    Of one release, PyPI's build comes first, then the newest CUDA.
    """
    own_number = _number(wheel.release)
    releases = sorted(data.RELEASES[machine], key=lambda each: (abs(_number(each) - own_number), -_number(each)))
    return [
        other._replace(version=wheel.version) if other.release == wheel.release and wheel.released else other
        for release in releases
        for other in _with_read_lists(release, machine)
    ]


def _with_read_lists(release: str, machine: str) -> list[Wheel]:
    """Return the wheels of a release whose list of kernels was read."""
    row = data.RELEASES[machine][release]
    builds = sorted({*row.builds} - {*row.unread}, key=lambda build: (build == row.default, build), reverse=True)
    return [Wheel(release, f"{release}.0", build) for build in builds]


def _number(release: str) -> int:
    """Return a release as a number that compares: 215 for 2.15."""
    major, minor = release.split(".")
    return int(major) * 100 + int(minor)
