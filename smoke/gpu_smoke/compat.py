"""Whether a GPU, a driver and a torch wheel work together, why not, and the nearest set that does.

It needs no GPU and no torch: a pool's settings can be asked before anything is bought, and a machine about itself.
What the tables do not know is said to be unknown; it is never a reason to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from . import compat_data as data
from .compat_data import Arch, Release

_MACHINE_NAMES = {"aarch64": "arm64"}  # as Linux names it
# Offered first where a driver has to change: long-term support, and the one branch that runs every GPU and every torch.
PREFERRED_BRANCH = 580
_WHEEL = re.compile(r"(\d+\.\d+)(\.\d+)?(?:\+([a-z]+[0-9.]*))?")
_CUDA = re.compile(r"cu(\d{2})(\d)")


class Wheel(NamedTuple):
    """A torch wheel: its release (2.9), its whole version (2.9.1) and its build (cu128; cpu; empty for PyPI's own)."""

    release: str
    version: str
    build: str

    @property
    def cuda(self) -> tuple[int, int] | None:
        """The CUDA it is built for."""
        found = _CUDA.fullmatch(self.build)
        return (int(found[1]), int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.version}+{self.build}" if self.build else self.version


class Problem(NamedTuple):
    """One reason why it does not work; `rule` is the same words in every release."""

    rule: str
    text: str


class Pair(NamedTuple):
    """A driver branch and a torch wheel that work on the GPU; None where nothing was asked."""

    branch: int | None
    torch: str | None


@dataclass(frozen=True)
class Verdict:
    """What came out."""

    problems: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    nearest: Pair | None = field(default=None, compare=False)

    @property
    def works(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.problems


def branch_of(driver: int | str) -> int:
    """The branch of a driver: 580 of 580, R580 and 580.159.03."""
    found = re.fullmatch(r"[Rr]?(\d{3})(\..*)?", str(driver))
    if not found:
        raise ValueError(f"not a driver version or branch: {driver!r}")
    return int(found[1])


def parse_capability(text: str | float) -> int:
    """A compute capability as the number in sm_89: 89 of 8.9."""
    found = re.fullmatch(r"(\d+)\.(\d)", str(text))
    if not found:
        raise ValueError(f"not a compute capability: {text!r}")
    return int(found[1]) * 10 + int(found[2])


def parse_wheel(text: str, machine: str = "x86_64") -> Wheel:
    """A wheel by its name; without a build it is the one that PyPI has for this machine, where that is known."""
    found = _WHEEL.fullmatch(text)
    if not found:
        raise ValueError(f"not a torch version: {text!r}")
    release, patch, build = found.groups()
    row = data.RELEASES[machine].get(release)
    build = build or (row.default or "cpu" if row else "?")
    return Wheel(release, release + (patch or ".0"), build.strip("?"))


def arch_of(capability: str) -> Arch | None:
    """The generation of a GPU, if it is known."""
    return next((arch for arch in data.ARCHS if parse_capability(capability) in arch.capabilities), None)


def newest_cuda(driver: int | str) -> tuple[int, int] | None:
    """The newest CUDA that a driver runs, if that is known."""
    known = data.BRANCHES.get(branch_of(driver))
    return known.cuda if known else None


def lowest_branch(cuda_major: int) -> int | None:
    """The lowest driver branch that runs code of a CUDA major."""
    return data.CUDA_FLOOR.get(cuda_major)


def runs(code: int, device: int) -> bool:
    """Whether code compiled for one capability (86) runs on a device of another (89)."""
    if code == device:
        return True
    return code // 10 == device // 10 and code < device and not {code, device} & data.ALONE


def pythons() -> tuple[tuple[int, int], tuple[int, int]]:
    """The oldest and the newest Python that any torch of the tables is known to be for."""
    known = [row.python for rows in data.RELEASES.values() for row in rows.values() if row.python]
    return min(low for low, _ in known), max(high for _, high in known)


def kernels(wheel: Wheel, machine: str = "x86_64") -> tuple[int, ...] | None:
    """The capabilities that a wheel was compiled for, if they are known."""
    release = data.RELEASES[machine].get(wheel.release)
    return release.builds.get(wheel.build) if release else None


def check(
    capability: str,
    driver: int | str | None = None,
    torch: str | None = None,
    *,
    machine: str = "x86_64",
    module: str | None = None,
    python: tuple[int, int] | None = None,
) -> Verdict:
    """Whether these work together; what is left out is not asked. `module` is the kernel module: open, proprietary."""
    branch = None if driver is None else branch_of(driver)
    wheel = None if torch is None else parse_wheel(torch, machine)
    problems = [*_gpu_and_driver(capability, branch, module)]
    unknown = [] if arch_of(capability) else [f"compute capability {capability}"]
    if wheel:
        problems += _wheel_alone(capability, wheel, machine, python)
        problems += _driver_and_wheel(branch, wheel)
        unknown += _unknown_of(wheel, machine, python)
    nearest = _nearest(capability, branch, wheel, machine, python) if problems else None
    return Verdict(tuple(problems), tuple(unknown), nearest)


def _gpu_and_driver(capability: str, branch: int | None, module: str | None) -> Iterator[Problem]:
    arch = arch_of(capability)
    if not arch:
        return
    if branch and arch.last_branch and branch > arch.last_branch:
        text = f"driver branch {branch} has dropped {arch.name} ({capability}): R{arch.last_branch} is its last"
        yield Problem("driver.dropped-gpu", text)
    if branch and arch.first_sure and branch < arch.first_branch:
        text = f"driver branch {branch} does not know {arch.name} ({capability}): R{arch.first_branch} is its first"
        yield Problem("driver.before-gpu", text)
    if module and module not in arch.modules:
        text = f"{arch.name} ({capability}) runs with the {arch.modules[0]} kernel module only, not the {module} one"
        yield Problem("driver.module", text)


def _wheel_alone(capability: str, wheel: Wheel, machine: str, python: tuple[int, int] | None) -> Iterator[Problem]:
    release = data.RELEASES[machine].get(wheel.release)
    if wheel.build and not wheel.cuda:
        text = f"torch {wheel} is built without CUDA"
        if release and not release.default:
            text = f"torch {wheel.version} from PyPI is for the CPU on {machine}"
        yield Problem("torch.no-cuda", text)
    elif release and wheel.build and wheel.build not in release.builds:
        has = ", ".join(release.builds)
        yield Problem("torch.no-build", f"torch {wheel.version} has no {wheel.build} wheel for {machine}: it has {has}")
    compiled = kernels(wheel, machine)
    device = parse_capability(capability)
    if compiled and not any(runs(code, device) for code in compiled):
        codes = " ".join(f"sm_{code}" for code in compiled)
        yield Problem("torch.no-kernels", f"torch {wheel} has no kernels for {capability}: it has {codes}")
    if python and release and release.python and not release.python[0] <= python <= release.python[1]:
        low, high = (".".join(map(str, each)) for each in release.python)
        yield Problem("torch.python", f"torch {wheel.version} is for Python {low} to {high}, not {_dotted(python)}")


def _driver_and_wheel(branch: int | None, wheel: Wheel) -> Iterator[Problem]:
    floor = lowest_branch(wheel.cuda[0]) if wheel.cuda else None
    if branch and floor and branch < floor and wheel.cuda:
        text = f"torch {wheel} needs driver branch {floor} or newer for CUDA {_dotted(wheel.cuda)}, not {branch}"
        yield Problem("driver.before-cuda", text)


def _unknown_of(wheel: Wheel, machine: str, python: tuple[int, int] | None) -> list[str]:
    release = data.RELEASES[machine].get(wheel.release)
    if not release:
        return [f"torch {wheel.release} on {machine}: it is not in the table"]
    if not wheel.build:
        return [f"which build PyPI has of torch {wheel.version} for {machine}: name it, such as +cu130"]
    unsure = (
        [f"what torch {wheel} was compiled for: as a neighbouring release"] if wheel.build in release.unsure else []
    )
    if python and not release.python:
        unsure.append(f"whether torch {wheel.version} is for Python {_dotted(python)}")
    return unsure


def _nearest(
    capability: str, branch: int | None, wheel: Wheel | None, machine: str, python: tuple[int, int] | None
) -> Pair | None:
    """The first that works: another wheel, then another driver, then both."""
    branches = sorted(data.BRANCHES, key=lambda each: (each != PREFERRED_BRANCH, abs(each - (branch or each))))
    wheels: list[Wheel | None] = [*_by_distance(wheel, machine)] if wheel else [None]
    tries = [(branch, each) for each in wheels]
    if branch:
        tries += [(other, wheel) for other in branches]
        tries += [(other, each) for other in branches for each in wheels]
    for one, other in tries:
        problems = [*_gpu_and_driver(capability, one, None)]
        if other:
            problems += [*_wheel_alone(capability, other, machine, python), *_driver_and_wheel(one, other)]
        if not problems:
            return Pair(one, None if other is None else str(other))
    return None


def _by_distance(wheel: Wheel, machine: str) -> list[Wheel]:
    """Other wheels: the same release first, then the nearest; PyPI's build first, then the newest CUDA."""
    releases: dict[str, Release] = data.RELEASES[machine]
    order = [*releases]
    here = _order(wheel.release)
    order.sort(key=lambda each: (abs(_order(each) - here), -_order(each)))
    found = []
    for each in order:
        version = wheel.version if each == wheel.release else f"{each}.0"
        sure = set(releases[each].builds) - {*releases[each].unsure}
        builds = sorted(sure, key=lambda build: (build == releases[each].default, build), reverse=True)
        found += [Wheel(each, version, build) for build in builds]
    return found


def _order(release: str) -> int:
    major, minor = release.split(".")
    return int(major) * 100 + int(minor)


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


def advice(capability: str, driver: str, torch: str, machine: str) -> str:
    """For a machine that failed: what would work on it; empty where nothing better is known."""
    try:
        nearest = check(capability, driver or None, torch, machine=_MACHINE_NAMES.get(machine, machine)).nearest
    except (KeyError, ValueError):  # a driver, torch or machine that this knows nothing of
        return ""
    on = f" on driver branch {nearest.branch}" if nearest and nearest.branch else ""
    return f"torch {nearest.torch}{on} runs on compute capability {capability}" if nearest else ""
