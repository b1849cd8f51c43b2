"""The offers of machines, sorted by price. An offer is one market and one region in which a machine is sold.

The machine types of a family that have the same GPUs are its sizes. `cheapest` returns the cheapest offer of each
family. Machines with an unknown price come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from gpu_smoke.compat import rules

from . import data_files, queries, staleness
from .errors import UnknownName
from .models import MARKETS, Machine, Market, Price
from .prices import interruption, price


class UnknownDtype(UnknownName):
    kind = "number type"


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine in one market and one region."""

    machine: Machine
    market: Market
    region: str
    price: Price | None
    """The price; None if it is unknown."""

    def is_doubtful(self, today: date) -> bool:
        """Return True for a price that is older than 90 days, undated or estimated."""
        return self.price is not None and (
            self.price.estimated or not self.price.date or staleness.stale_days(self.price, today) > 0
        )


def dtypes() -> tuple[str, ...]:
    """Return the number types that the catalog knows, such as bf16."""
    return tuple(row["dtype"] for row in data_files.rows("dtypes"))


def cheapest(
    machines: Iterable[Machine],
    market: Market | None = None,
    region: str | None = None,
    *,
    budget: float | None = None,
) -> list[Offer]:
    """Return the cheapest offer of each family of machines, cheapest first.

    With a budget in USD an hour, machines with a higher or an unknown price are left out.
    """
    best: dict[tuple[object, ...], Offer] = {}
    for offer in sorted((found for each in machines if (found := _best(each, market, region))), key=_rank):
        machine = offer.machine
        family = machine.cloud, machine.family, machine.gpu.key, machine.gpu_count, machine.accelerator
        if budget is None or (offer.price and offer.price.usd_per_hour <= budget):
            best.setdefault(family, offer)
    return sorted(best.values(), key=lambda each: (each.price is None, each.price.usd_per_hour if each.price else 0))


def _best(machine: Machine, market: Market | None, region: str | None) -> Offer | None:
    """Return the cheapest offer of a machine, or None if it is not sold in that market and region."""
    offers = (
        Offer(machine, sold, place, price(machine, place, sold))
        for sold in machine.markets
        for place in machine.regions
        if market in (None, sold) and region in (None, place)
    )
    return min(offers, key=_rank, default=None)


def _rank(offer: Offer) -> tuple[object, ...]:
    """Return the sort key: by price, unknown prices last. Regions that the cloud's own page lists come first."""
    machine = offer.machine
    size = machine.gpu_count * queries.nominal_gpu_memory_gib(machine), machine.vcpus, machine.memory_gib, machine.key
    unlisted, usd = offer.region in machine.unlisted_regions, offer.price.usd_per_hour if offer.price else 0
    return offer.price is None, unlisted, usd, *size, MARKETS.index(offer.market), offer.region


def supports(machine: Machine, dtype: str | None = None, torch: str | None = None) -> bool:
    """Return True if the GPU multiplies matrices of the number type in hardware, and runs the torch wheel.

    Raise UnknownDtype for an unknown number type, and ValueError for an invalid torch version.
    """
    gpu = machine.gpu
    if dtype and gpu.capability < _capability(_dtype(dtype)["compute_capability"]):
        return False
    if not torch:
        return True
    return gpu.is_nvidia and rules.check(gpu.compute_capability, torch=torch, machine=machine.architecture).works


def caveats(offer: Offer, dtype: str | None = None, default_torch: str = "") -> Iterator[str]:
    """Yield facts to consider before you choose the machine.

    `default_torch` is the torch version that the job uses if it names none.
    """
    machine, gpu = offer.machine, offer.machine.gpu
    if band := interruption(machine, offer.region) if offer.market == "spot" else "":
        yield f"{band} of the spot instances were interrupted in a month ({queries.source('adv').date})"
    if offer.region in machine.unlisted_regions:
        yield f"Google's page does not list the machine in {offer.region}: the region may be open to some projects only"
    if {"markets", f"markets.{offer.market}"} & {*machine.uncertain}:
        yield f"no vendor's source confirms that the machine is sold as {offer.market}"
    if machine.gpu_count < 1:
        driver = ", which needs the vGPU guest driver" if machine.cloud == "gcp" else ""
        yield f"the machine has {machine.gpu_count:g} of a GPU{driver}"
    if machine.architecture != "x86_64":
        yield f"the processor is {machine.architecture}"
    if gpu.last_driver_branch is not None:
        yield f"driver branch {gpu.last_driver_branch} is the last one that supports the {gpu.name}"
    if dtype and (limitation := _dtype(dtype)["partly"].get(gpu.compute_capability)):
        yield f"{dtype} is supported only in part: {limitation}"
    if default_torch and gpu.is_nvidia:
        verdict = rules.check(gpu.compute_capability, torch=default_torch, machine=machine.architecture)
        nearest = verdict.nearest and verdict.nearest.torch
        for problem in verdict.problems:
            yield f"the default {problem.text.partition(': ')[0]}" + (f": take torch {nearest}" if nearest else "")


def lacking(machine: Machine, other: Machine) -> list[str]:
    """Return each property in which a machine is less capable than another one, for a job written for the other."""
    has, needed = queries.nominal_gpu_memory_gib(machine), queries.nominal_gpu_memory_gib(other)
    found = []
    if machine.architecture != other.architecture:
        found.append(f"is {machine.architecture}, not {other.architecture}")
    if has < needed:
        found.append(f"has {has:g} GiB of GPU memory, not {needed:g}")
    if machine.gpu.capability < other.gpu.capability:
        own = machine.gpu.compute_capability or "none"
        found.append(f"has compute capability {own}, not {other.gpu.compute_capability}")
    return found


def _dtype(name: str) -> data_files.Json:
    if name not in dtypes():
        raise UnknownDtype(name, dtypes())
    return next(row for row in data_files.rows("dtypes") if row["dtype"] == name)


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
