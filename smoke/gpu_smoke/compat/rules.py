"""Check if a GPU, a driver and a torch wheel work together, and find the nearest set that does.

This needs no GPU and no torch: it can check the settings of a pool before the machine exists. A combination that the
tables do not have is reported as unknown. It is never a reason to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from . import data
from .data import Arch, Card
from .wheels import Wheel, by_distance, kernels, newest_first, parse_wheel

# Offered first if the driver has to change: it has long-term support and is the only branch that runs every GPU and
# every torch.
PREFERRED_BRANCH = 580


class Problem(NamedTuple):
    """One reason why a combination does not work. `rule` is the same text in every release."""

    rule: str
    text: str


class Pair(NamedTuple):
    """A driver branch and a torch wheel that work on the GPU; None for one that was not requested."""

    branch: int | None
    torch: str | None


@dataclass(frozen=True)
class Verdict:
    """The result of a check."""

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
    """Return the generation of a GPU; None if it is unknown."""
    return next((arch for arch in data.ARCHS if parse_capability(capability) in arch.capabilities), None)


def newest_cuda(driver: int | str) -> tuple[int, int] | None:
    """Return the newest CUDA that a driver runs; None if it is unknown."""
    known = data.BRANCHES.get(branch_of(driver))
    return known.cuda if known else None


def lowest_branch(cuda: tuple[int, int]) -> int | None:
    """Return the lowest driver branch that runs code of a CUDA; None if it is unknown."""
    return data.CUDA_FLOOR.get(cuda[0]) or data.TOOLKITS.get(cuda)


def runs(code: int, device: int, cuda: tuple[int, int] | None = None) -> bool:
    """Return True if code compiled by this CUDA for one capability (86) runs on a device of another one (89)."""
    code, device = data.RENAMED.get(code, code), data.RENAMED.get(device, device)
    if code == device:
        return True
    joined = data.LIKE_SERVERS if cuda and cuda >= data.LIKE_SERVERS_SINCE else frozenset()
    return code // 10 == device // 10 and code < device and code not in data.ALONE and device not in data.ALONE - joined


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
    card: Card | None = None,
) -> Verdict:
    """Check that these work together. Values that are not given are not checked.

    `module` is the kernel module: open or proprietary. `card` is for a GPU whose own first driver is later than that of
    its generation.
    """
    branch = None if driver is None else branch_of(driver)
    wheel = None if torch is None else parse_wheel(torch, machine)
    problems = [*_gpu_and_driver(capability, branch, module, card)]
    unknown = [] if arch_of(capability) else [f"compute capability {capability}"]
    if branch and branch not in data.BRANCHES:
        unknown.append(f"driver branch {branch}: it is not in the table")
    if branch and card and branch < card.first_branch and not problems:
        unknown.append(
            f"whether driver branch {branch} knows the {card.name}: R{card.first_branch} is thought to be its first"
        )
    if wheel:
        problems += _wheel_alone(capability, wheel, machine, python)
        problems += _driver_and_wheel(branch, wheel)
        unknown += _unknown_of(wheel, machine)
    nearest = ways(capability, branch, wheel, machine=machine, python=python, card=card) if problems else ()
    return Verdict(tuple(problems), tuple(unknown), nearest[0] if nearest else None)


def _gpu_and_driver(capability: str, branch: int | None, module: str | None, card: Card | None) -> Iterator[Problem]:
    arch = arch_of(capability)
    if not arch:
        return
    if branch and arch.last_branch and branch > arch.last_branch:
        text = f"driver branch {branch} has dropped {arch.name} ({capability}): R{arch.last_branch} is its last"
        yield Problem("driver.dropped-gpu", text)
    if branch and card and card.sure and branch < card.first_branch:
        text = f"driver branch {branch} does not know the {card.name}: R{card.first_branch} is its first"
        yield Problem("driver.before-gpu", text)
    elif branch and arch.first_branch and branch < arch.first_branch:
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
    if compiled and not any(runs(code, device, wheel.cuda) for code in compiled):
        codes = " ".join(f"sm_{code}" for code in compiled)
        yield Problem("torch.no-kernels", f"torch {wheel} has no kernels for {capability}: it has {codes}")
    if python and release and not release.python[0] <= python <= release.python[1]:
        low, high = (".".join(map(str, each)) for each in release.python)
        yield Problem("torch.python", f"torch {wheel.version} is for Python {low} to {high}, not {_dotted(python)}")


def _driver_and_wheel(branch: int | None, wheel: Wheel) -> Iterator[Problem]:
    floor = lowest_branch(wheel.cuda) if wheel.cuda else None
    if branch and floor and branch < floor and wheel.cuda:
        text = f"torch {wheel} needs driver branch {floor} or newer for CUDA {_dotted(wheel.cuda)}, not {branch}"
        yield Problem("driver.before-cuda", text)


def _unknown_of(wheel: Wheel, machine: str) -> Iterator[str]:
    release = data.RELEASES[machine].get(wheel.release)
    if not release:
        yield f"torch {wheel.release} on {machine}: it is not in the table"
        return
    if not wheel.released:
        newest = f"{wheel.release}.{data.PATCHES.get(wheel.release, 0)}"
        yield f"torch {wheel.version}: the newest of its release in the table is {newest}"
    if not wheel.build:
        yield f"which build PyPI has of torch {wheel.version} for {machine}: name it, such as +cu130"
    elif wheel.build in release.unsure:
        compiled = kernels(wheel, machine)
        near = next((each for each in by_distance(wheel, machine) if kernels(each, machine) == compiled), None)
        taken = f"taken to be the list of torch {near}" if near else "taken from PyTorch's matrix of releases"
        yield f"what torch {wheel} was compiled for: its list of GPUs was not read, and is {taken}"


def ways(
    capability: str,
    branch: int | None,
    wheel: Wheel | None,
    *,
    machine: str = "x86_64",
    python: tuple[int, int] | None = None,
    card: Card | None = None,
) -> tuple[Pair, ...]:
    """Return what works instead: another wheel and another driver, the nearest of each.

    If neither is enough, change both.
    """
    branches = sorted(data.BRANCHES, key=lambda each: each != PREFERRED_BRANCH)
    wheels: list[Wheel | None] = [*by_distance(wheel, machine)] if wheel else [None]

    def first(tries: Iterable[tuple[int | None, Wheel | None]]) -> list[Pair]:
        works = (each for each in tries if not [*_problems(capability, *each, machine, python, card)])
        return [Pair(one, None if other is None else str(other)) for one, other in islice(works, 1)]

    found = first((branch, each) for each in wheels)
    if (branch and wheel) or not found:
        found += first((each, wheel) for each in branches if branch)
    return tuple(found or first((one, other) for one in branches for other in wheels if branch))


def choose(
    capability: str,
    driver: int | str | None = None,
    torch: str | None = None,
    *,
    machine: str = "x86_64",
    python: tuple[int, int] | None = None,
    card: Card | None = None,
) -> Pair | None:
    """Return a pair for the given values: the branch with long-term support, the newest torch.

    None if there is no such pair.
    """
    known = sorted(data.BRANCHES, key=lambda each: (each != PREFERRED_BRANCH, -each))
    branches = known if driver is None else [branch_of(driver)]
    wheels = newest_first(machine) if torch is None else [parse_wheel(torch, machine)]
    for branch in branches:
        for wheel in wheels:
            if not [*_problems(capability, branch, wheel, machine, python, card)]:
                return Pair(branch, str(wheel))
    return None


def _problems(
    capability: str,
    branch: int | None,
    wheel: Wheel | None,
    machine: str,
    python: tuple[int, int] | None,
    card: Card | None,
) -> Iterator[Problem]:
    yield from _gpu_and_driver(capability, branch, None, card)
    if wheel:
        yield from _wheel_alone(capability, wheel, machine, python)
        yield from _driver_and_wheel(branch, wheel)


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
