"""Compares a machine with the needs of a job: the minimum that the job requires, such as GPU memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from gpu_smoke.compat import rules, wheels

from . import data_files, queries
from .errors import UnknownName
from .locations import closest_location
from .models import CLOUDS, Architecture, Cloud, Machine, Market

Dtype = Literal["fp32", "fp16", "int8", "bf16", "fp8", "fp4"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class UnknownDtype(UnknownName):
    kind = "number type"


class UnknownRegion(UnknownName):
    kind = "region with a GPU"

    def __init__(self, given: str, known: Iterable[str]) -> None:
        near = closest_location(given, known)
        super().__init__(given, hint=f"did you mean {near}?" if near else "")


class UnknownCloud(UnknownName):
    kind = "cloud"


class UnknownArchitecture(UnknownName):
    kind = "architecture"


@dataclass(frozen=True, slots=True)
class NumberType:
    """A number type, such as bf16, and the hardware that multiplies matrices of it."""

    dtype: Dtype
    compute_capability: str
    """The first compute capability with support."""
    partly: Mapping[str, str]
    """The missing feature of each compute capability with partial support."""
    sources: tuple[str, ...]
    """Source keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The minimum that a job needs. A field with its default value is not checked.

    Raises:
        UnknownName: A market, cloud, region, architecture or number type is unknown.
        ValueError: A number is invalid.
    """

    gpu_memory_gib: float = 0
    """The memory of one GPU by its nominal size: 24 for an L4 on every cloud."""
    gpu_count: float = 1
    """The number of GPUs. A number below 1 allows fractions of a GPU. `gpu_memory_gib` is then that of the fraction."""
    compute_capability: str = ""
    """The lowest compute capability, such as 8.0."""
    dtype: Dtype | None = None
    """A number type whose matrices the hardware must multiply."""
    budget_usd_per_hour: float | None = None
    """The maximum price of one machine."""
    market: Market | None = None
    cloud: Cloud | None = None
    region: str | None = None
    architecture: Architecture | None = None
    memory_gib: float = 0
    """The memory of the machine, without the memory of its GPUs."""
    vcpus: int = 0
    torch: str = ""
    """A torch wheel that must run on the GPU, such as 2.9.1+cu129."""

    def __post_init__(self) -> None:
        if self.market is not None:
            object.__setattr__(self, "market", queries.market(self.market))
        if self.dtype is not None:
            number_type(self.dtype)
        if self.cloud not in (None, *CLOUDS):
            raise UnknownCloud(str(self.cloud), CLOUDS)
        if self.architecture not in (None, *get_args(Architecture)):
            raise UnknownArchitecture(str(self.architecture), get_args(Architecture))
        if self.region is not None and self.region not in _regions():
            raise UnknownRegion(self.region, _regions())
        capability(self.compute_capability)
        if self.torch:
            wheels.parse_wheel(self.torch)
        for name in ("gpu_memory_gib", "gpu_count", "memory_gib", "vcpus", "budget_usd_per_hour"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a number from 0 on, not {value}")
        if self.budget_usd_per_hour == 0:
            raise ValueError("budget_usd_per_hour must be more than 0: nothing is free")


@dataclass(frozen=True, slots=True)
class MissingNeed:
    """One need that a machine does not meet."""

    need: str
    """The name of the field of `Needs`."""
    text: str
    distance: float
    """The distance from the need. It is 1 if the machine has half the needed amount, and 1 for a different region."""


def capability(text: str) -> tuple[int, int]:
    """Return a compute capability as comparable numbers; (0, 0) for an empty text."""
    major, _, minor = text.partition(".")
    if text and not (major.isdecimal() and (minor or "0").isdecimal()):
        raise ValueError(f"{text!r} is no compute capability; such as 8.0")
    return (int(major), int(minor or 0)) if text else (0, 0)


def number_type(name: str) -> NumberType:
    """Return a number type by its name. Raise UnknownDtype for an unknown name."""
    if name not in _number_types():
        raise UnknownDtype(name, DTYPES)
    return _number_types()[name]


@cache
def _number_types() -> dict[str, NumberType]:
    return {
        row["dtype"]: NumberType(
            row["dtype"], row["compute_capability"], row["partly"], tuple(row["sources"]["compute_capability"])
        )
        for row in data_files.rows("dtypes")
    }


@cache
def _regions() -> frozenset[str]:
    return frozenset(queries.regions())


def needs_of(machine: Machine) -> Needs:
    """Return the needs of a job that was written for this machine.

    The job needs the same number of GPUs, at least the same GPU memory and compute capability, and the same processor
    architecture.
    """
    return Needs(
        gpu_memory_gib=queries.nominal_gpu_memory_gib(machine),
        gpu_count=machine.gpu_count,
        compute_capability=machine.gpu.compute_capability,
        architecture=machine.architecture,
    )


@cache
def torch_on(torch: str, compute_capability: str, architecture: Architecture) -> rules.Verdict:
    """Check if a torch wheel runs on a GPU, with any driver."""
    return rules.check(compute_capability, torch=torch, machine=architecture)


def missing_needs(machine: Machine, needs: Needs) -> list[MissingNeed]:
    """Return every need that the machine does not meet. The budget is not checked: see `offers.shortfalls`."""
    return [*_choices(machine, needs), *_amounts(machine, needs), *_capabilities(machine, needs)]


def _choices(machine: Machine, needs: Needs) -> Iterator[MissingNeed]:
    for need, wanted, has, text in (
        ("cloud", needs.cloud, (machine.cloud,), f"is of {machine.cloud}, not {needs.cloud}"),
        (
            "architecture",
            needs.architecture,
            (machine.architecture,),
            f"is {machine.architecture}, not {needs.architecture}",
        ),
        ("region", needs.region, machine.regions, f"is not in {needs.region}"),
        (
            "market",
            needs.market,
            machine.markets,
            f"is not sold as {needs.market}, only as {', '.join(machine.markets)}",
        ),
    ):
        if wanted is not None and wanted not in has:
            yield MissingNeed(need, text, 1)


def _amounts(machine: Machine, needs: Needs) -> Iterator[MissingNeed]:
    for need, least, has, what in (
        ("gpu_memory_gib", needs.gpu_memory_gib, queries.nominal_gpu_memory_gib(machine), "GiB of GPU memory"),
        ("gpu_count", needs.gpu_count, machine.gpu_count, "GPU" if machine.gpu_count == 1 else "GPUs"),
        ("memory_gib", needs.memory_gib, machine.memory_gib, "GiB of memory"),
        ("vcpus", needs.vcpus, machine.vcpus, "vCPUs"),
    ):
        if has < least:
            yield MissingNeed(need, f"has {has:g} {what}, not {least:g}", least / has - 1)


def _capabilities(machine: Machine, needs: Needs) -> Iterator[MissingNeed]:
    required = [("compute_capability", needs.compute_capability, "")]
    if needs.dtype:
        required.append(("dtype", number_type(needs.dtype).compute_capability, f", which {needs.dtype} requires"))
    has = machine.gpu.capability
    for need, text, reason in required:
        least = capability(text)
        if has < least:
            yield MissingNeed(
                need,
                f"has compute capability {machine.gpu.compute_capability or 'none'}, not {text}{reason}",
                (least[0] * 10 + least[1]) / max(1, has[0] * 10 + has[1]) - 1,
            )
    if needs.torch and machine.gpu.compute_capability:
        verdict = torch_on(needs.torch, machine.gpu.compute_capability, machine.architecture)
        if verdict.problems:
            reasons = "; ".join(each.text.partition(": ")[0] for each in verdict.problems)
            yield MissingNeed("torch", f"cannot run this torch: {reasons}", 1)
