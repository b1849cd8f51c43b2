"""Rules that say if a GPU, a driver and a torch wheel work together. They also find the nearest combination that works.

The rules need no GPU and no torch, so they can check the settings of a pool before a machine exists. They read the
tables of data.py. Three terms:

- The *branch* of a driver is the first number of its version: 580 for 580.159.03.
- An *architecture* is a generation of GPUs, such as Ada. Its GPUs have the same compute
  capability, or a few.
- A *kernel module* is the part of the driver in the Linux kernel. NVIDIA has an open and a proprietary one.

`check` does not refuse a value that the tables do not have. It lists the value as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from . import data
from .data import Arch

# The first choice if the driver has to change. This branch has long-term support, and only this branch runs every GPU
# and every torch of the tables.
PREFERRED_BRANCH = 580
_LINUX_NAMES = {"aarch64": "arm64"}
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


class Problem(NamedTuple):
    """One reason why a combination does not work.

    `rule` is a name that does not change between releases. `source` says where the fact was read.
    """

    rule: str
    text: str
    source: str = ""


class Pair(NamedTuple):
    """A driver branch and a torch wheel that work on the GPU. It has None for a value that was not requested."""

    branch: int | None
    torch: str | None


@dataclass(frozen=True)
class Verdict:
    """The result of `check`.

    `unknown` has a sentence for each value that no table settles. `nearest` is a combination that works, if this one
    does not.
    """

    problems: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    nearest: Pair | None = None

    @property
    def works(self) -> bool:
        """True if there is no known problem."""
        return not self.problems


def branch_of(driver: int | str) -> int:
    """Return the branch of a driver: 580 for 580, R580 and 580.159.03."""
    found = re.fullmatch(r"[Rr]?(\d{3})(\..*)?", str(driver))
    if not found:
        raise ValueError(f"not a driver version or branch: {driver!r}")
    return int(found[1])


def parse_capability(text: str | float) -> int:
    """Return a compute capability as the number in sm_89: 89 for 8.9."""
    found = re.fullmatch(r"(\d+)\.(\d)", str(text))
    if not found:
        raise ValueError(f"not a compute capability: {text!r}")
    return int(found[1]) * 10 + int(found[2])


def arch_of(capability: str) -> Arch | None:
    """Return the architecture of a GPU; None if the tables do not have its compute capability."""
    return next((arch for arch in data.ARCHS if parse_capability(capability) in arch.capabilities), None)


def newest_cuda(driver: int | str) -> tuple[int, int] | None:
    """Return the newest CUDA version that a driver runs; None if it is unknown."""
    known = data.BRANCHES.get(branch_of(driver))
    return known.cuda if known else None


def lowest_branch(cuda: tuple[int, int]) -> int | None:
    """Return the lowest driver branch that runs code for a CUDA version; None if it is unknown."""
    return data.CUDA_FLOOR.get(cuda[0]) or data.TOOLKITS.get(cuda)


def runs(code: int, device: int, cuda: tuple[int, int] | None = None) -> bool:
    """Return True if code for one compute capability (86) runs on a device of another one (89).

    `cuda` is the CUDA version that compiled the code.
    """
    code, device = data.RENAMED.get(code, code), data.RENAMED.get(device, device)
    if code == device:
        return True
    if code in data.EXACT_MATCH_ONLY or code // 10 != device // 10 or code > device:
        return False
    takes_server_code = device in data.LIKE_SERVERS and cuda is not None and cuda >= data.LIKE_SERVERS_SINCE
    return device not in data.EXACT_MATCH_ONLY or takes_server_code


def pythons() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the oldest and the newest Python version that any torch of the tables supports."""
    known = [row.python for rows in data.RELEASES.values() for row in rows.values()]
    return min(low for low, _ in known), max(high for _, high in known)


def check(
    capability: str,
    driver: int | str | None = None,
    torch: str | None = None,
    *,
    machine: str = "x86_64",
    module: str | None = None,
    python: tuple[int, int] | None = None,
) -> Verdict:
    """Check that these values work together. A value of None is not checked.

    Args:
        capability: The compute capability of the GPU, such as 8.9.
        driver: The version or the branch of the driver.
        torch: The version of the wheel, such as 2.9.1+cu129.
        machine: The processor architecture: x86_64 or arm64.
        module: The kernel module: open or proprietary.
        python: The Python version.
    """
    branch = None if driver is None else branch_of(driver)
    wheel = None if torch is None else parse_wheel(torch, machine)
    problems = [*_gpu_and_driver(capability, branch, module)]
    unknown = [] if arch_of(capability) else [f"compute capability {capability} is not in the tables"]
    if branch and branch not in data.BRANCHES:
        unknown.append(not_in_table(branch))
    if wheel:
        problems += _wheel_by_itself(capability, wheel, machine, python)
        problems += _driver_and_wheel(branch, wheel)
        unknown += _unknown_of(wheel, machine)
    nearest = alternatives(capability, branch, wheel, machine=machine, python=python) if problems else ()
    return Verdict(tuple(problems), tuple(unknown), nearest[0] if nearest else None)


def not_in_table(branch: int) -> str:
    """Return the sentence about a driver branch that the tables do not have."""
    return f"driver branch {branch} is not in the table of drivers"


def unconfirmed_first_branch(branch: int, card: str, first: int) -> str:
    """Return the sentence about a branch older than the first one of a card, if no source confirms the first one."""
    return f"support of driver branch {branch} for the {card}: its first branch is probably {first}, without a source"


def too_old(branch: int, gpu: str, first: int) -> str:
    """Return the sentence about a driver that is older than the GPU."""
    return f"driver branch {branch} does not support {gpu}: the first branch that does is {first}"


def _gpu_and_driver(capability: str, branch: int | None, module: str | None) -> Iterator[Problem]:
    arch = arch_of(capability)
    if not arch:
        return
    gpus = f"{arch.name} ({capability})"
    source = data.SOURCES[arch.source]
    if branch and arch.last_branch and branch > arch.last_branch:
        text = f"driver branch {branch} does not support {gpus}: the last branch that does is {arch.last_branch}"
        yield Problem("driver.dropped-gpu", text, source)
    if branch and arch.first_branch and branch < arch.first_branch:
        yield Problem("driver.before-gpu", too_old(branch, gpus, arch.first_branch), source)
    if module and module not in arch.modules:
        text = f"{gpus} needs the {arch.modules[0]} kernel module, not the {module} one"
        yield Problem("driver.module", text, data.SOURCES["nv-open" if module == data.PROPRIETARY else "gsp"])


def _wheel_by_itself(capability: str, wheel: Wheel, machine: str, python: tuple[int, int] | None) -> Iterator[Problem]:
    """Yield the problems of a wheel that do not depend on the driver."""
    release = data.RELEASES[machine].get(wheel.release)
    source = data.SOURCES[release.source] if release else ""
    if wheel.build and not wheel.cuda:
        text = f"torch {wheel} is built without CUDA"
        if release and not release.default:
            text = f"torch {wheel.version} from PyPI is for the CPU on {machine}"
        yield Problem("torch.no-cuda", text, source)
    elif release and wheel.build and wheel.build not in release.builds:
        text = f"torch {wheel.version} has no {wheel.build} wheel for {machine}: it has {', '.join(release.builds)}"
        yield Problem("torch.no-build", text, source)
    compiled = kernels(wheel, machine)
    device = parse_capability(capability)
    if compiled and not any(runs(code, device, wheel.cuda) for code in compiled):
        codes = " ".join(f"sm_{code}" for code in compiled)
        text = f"torch {wheel} has no kernels for compute capability {capability}: it has {codes}"
        yield Problem("torch.no-kernels", text, source)
    if python and release and not release.python[0] <= python <= release.python[1]:
        low, high = map(_dotted, release.python)
        text = f"torch {wheel.version} supports Python {low} to {high}, not {_dotted(python)}"
        yield Problem("torch.python", text, data.SOURCES["pypi"])


def _driver_and_wheel(branch: int | None, wheel: Wheel) -> Iterator[Problem]:
    floor = lowest_branch(wheel.cuda) if wheel.cuda else None
    if branch and floor and branch < floor and wheel.cuda:
        text = f"torch {wheel} needs driver branch {floor} or newer for CUDA {_dotted(wheel.cuda)}, not {branch}"
        source = "nv-minor" if wheel.cuda[0] in data.CUDA_FLOOR else "nv-toolkits"
        yield Problem("driver.before-cuda", text, data.SOURCES[source])


def _unknown_of(wheel: Wheel, machine: str) -> Iterator[str]:
    release = data.RELEASES[machine].get(wheel.release)
    if not release:
        yield f"torch {wheel.release} for {machine} is not in the tables"
        return
    if not wheel.released:
        newest = f"{wheel.release}.{data.PATCHES.get(wheel.release, 0)}"
        yield f"torch {wheel.version} is not in the tables: their newest patch of this release is {newest}"
    if not wheel.build:
        wanted = f"the build of torch {wheel.version} on PyPI for {machine}"
        yield f"{wanted} is unknown: add one to the version, such as +cu130"
    elif wheel.build in release.unread:
        compiled = kernels(wheel, machine)
        near = next((each for each in by_distance(wheel, machine) if kernels(each, machine) == compiled), None)
        assumed = f"that of torch {near}" if near else "that of PyTorch's matrix of releases"
        yield f"the list of GPUs that torch {wheel} was compiled for was not read: assumed is {assumed}"


def hint(capability: str, driver: str, torch: str, machine: str) -> str:
    """Return a hint for a machine that failed: a torch that works on it, and its driver; empty if none is known.

    `machine` is the processor architecture as Linux names it.
    """
    try:
        found = check(capability, driver or None, torch, machine=_LINUX_NAMES.get(machine, machine)).nearest
    except (KeyError, ValueError):  # a driver, torch or machine that the tables do not have
        return ""
    on = f" on driver branch {found.branch}" if found and found.branch else ""
    return f"torch {found.torch}{on} runs on compute capability {capability}" if found else ""


def alternatives(
    capability: str,
    branch: int | None,
    wheel: Wheel | None,
    *,
    machine: str = "x86_64",
    python: tuple[int, int] | None = None,
) -> tuple[Pair, ...]:
    """Return combinations that work instead: one with another wheel, and one with another driver branch.

    Each is the nearest combination of its kind. If neither change is enough, the result is one combination with both
    changes.
    """
    branches = sorted(data.BRANCHES, key=lambda each: each != PREFERRED_BRANCH)
    wheels: list[Wheel | None] = [*by_distance(wheel, machine)] if wheel else [None]

    def first_working(candidates: Iterable[tuple[int | None, Wheel | None]]) -> list[Pair]:
        working = (each for each in candidates if not [*_problems(capability, *each, machine, python)])
        return [Pair(number, None if other is None else str(other)) for number, other in islice(working, 1)]

    found = first_working((branch, other) for other in wheels)
    if (branch and wheel) or not found:
        found += first_working((number, wheel) for number in branches if branch)
    return tuple(found or first_working((number, other) for number in branches for other in wheels if branch))


def _problems(
    capability: str,
    branch: int | None,
    wheel: Wheel | None,
    machine: str,
    python: tuple[int, int] | None,
) -> Iterator[Problem]:
    yield from _gpu_and_driver(capability, branch, None)
    if wheel:
        yield from _wheel_by_itself(capability, wheel, machine, python)
        yield from _driver_and_wheel(branch, wheel)


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


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
