"""Recommends machines for a job, cheapest first, with reasons. If no machine matches, it explains why.

A *need* is a minimum that a job requires of a machine (`needs.Needs`). An *offer* is a market and a region in which a
machine is sold, with its price (`offers.Offer`). Machines with an unknown price come last. If the job has a budget,
machines with an unknown price are left out.

The machine types of a family that have the same GPUs are its sizes. The list has one size of each family, and one offer
of this size. To choose the size and the offer, old, undated and estimated spot prices are not used (`offers` explains
the reason). The list itself is sorted by the prices that it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import cache
from typing import Any

from . import queries
from .models import Machine
from .needs import MissingNeed, Needs, number_type, torch_on
from .offers import Offer, best, shortfalls
from .prices import interruption


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A machine that meets the needs, with its cheapest offer."""

    offer: Offer
    reasons: tuple[str, ...]
    """The reasons for the recommendation and for its place in the list."""
    caveats: tuple[str, ...]
    """Facts to consider before you choose the machine."""

    @property
    def machine(self) -> Machine:
        return self.offer.machine

    @property
    def usd_per_hour(self) -> float | None:
        return self.offer.usd_per_hour

    @property
    def text(self) -> str:
        """Reasons and caveats on one line."""
        return "; ".join(self.texts)

    @property
    def texts(self) -> tuple[str, ...]:
        """The reasons, then the caveats."""
        return (*self.reasons, *self.caveats)


def shared_texts(recommendations: Sequence[Recommendation]) -> dict[tuple[int, ...], list[str]]:
    """Return the reasons and caveats that several recommendations share.

    The key is the positions of these recommendations in the list, starting with 1.
    """
    ranks_by_text: dict[str, list[int]] = {}
    for number, each in enumerate(recommendations, 1):
        for text in each.texts:
            ranks_by_text.setdefault(text, []).append(number)
    texts_by_ranks: dict[tuple[int, ...], list[str]] = {}
    for text, ranks in ranks_by_text.items():
        if len(ranks) > 1:
            texts_by_ranks.setdefault(tuple(ranks), []).append(text)
    return texts_by_ranks


def recommend(
    needs: Needs,
    limit: int = 10,
    *,
    every_size: bool = False,
    today: date | None = None,
    default_torch: str = "",
) -> list[Recommendation]:
    """Return the machines that meet the needs, cheapest first. Machines with unknown prices come last.

    If the list is empty, `explain_no_match` returns the reason.

    Args:
        needs: The needs of the job.
        limit: The maximum number of machines.
        every_size: False to return only the best size of a family with the same GPUs.
        today: The day from which the age of prices is computed. Without a day, no price counts as old.
        default_torch: The torch version that is used if the needs have none. Unsupported GPUs get a caveat.
    """
    found = sorted((offer for each in candidates() if (offer := _offer(each, needs, today))), key=rank)
    sizes_by_group = [[offer] for offer in found] if every_size else _sizes(found)
    sizes_by_group.sort(key=lambda sizes: (sizes[0].price is None, sizes[0].usd_per_hour or 0))
    cheapest = sizes_by_group[0][0].usd_per_hour if sizes_by_group else None
    return [
        Recommendation(
            sizes[0],
            tuple(_reasons(sizes, needs, cheapest)),
            (*_caveats(sizes[0], needs), *_torch(sizes[0].machine, needs, default_torch)),
        )
        for sizes in sizes_by_group[: max(0, limit)]
    ]


@cache
def candidates() -> tuple[Machine, ...]:
    """Return every machine that can be recommended: its GPU is not retired and has CUDA, and its regions are known."""
    return tuple(each for each in queries.machines() if each.gpu.is_nvidia and each.regions)


def _offer(machine: Machine, needs: Needs, today: date | None) -> Offer | None:
    """Return the best offer of a machine, or None if it does not meet the needs."""
    if shortfalls(machine, needs):
        return None
    return best(machine, needs.market, needs.region, budget=needs.budget_usd_per_hour, today=today)


def rank(offer: Offer) -> tuple[object, ...]:
    """Return the sort key: cheapest first. With the same or an unknown price, the smallest machine comes first."""
    machine = offer.machine
    size = machine.gpu_count * queries.nominal_gpu_memory_gib(machine)
    return *offer.rank, size, machine.gpu.capability, machine.vcpus, machine.memory_gib, machine.key


def _group(machine: Machine) -> tuple[object, ...]:
    """Return the key that is equal for all sizes of a family with the same GPUs."""
    return machine.cloud, machine.family, machine.gpu.key, machine.gpu_count, machine.accelerator


def _sizes(offers: list[Offer]) -> list[list[Offer]]:
    """Group the offers by family and GPUs. The best offer of each group comes first."""
    groups: dict[tuple[object, ...], list[Offer]] = {}
    for offer in offers:
        groups.setdefault(_group(offer.machine), []).append(offer)
    return list(groups.values())


def _reasons(sizes: list[Offer], needs: Needs, cheapest: float | None) -> Iterator[str]:
    """Yield the reasons for the recommended size, which is the first of these sizes."""
    offer = sizes[0]
    usd = offer.usd_per_hour
    if usd is not None and cheapest is not None:
        percent = round(100 * (usd / cheapest - 1))
        more = f"{percent} %" if percent else "slightly"
        yield _cheapest_with(needs) if usd == cheapest else f"{more} more than the cheapest"
    yield from filter(None, (offer.amount_text, offer.price_origin, offer.price_caveat))
    yield from _cheaper_but_unreliable(sizes)
    others = len(offer.machine.regions) - 1
    if offer.price is None and needs.region is None and others:
        yield f"also in {others} other region{'s' if others > 1 else ''}, at unknown prices"
    if needs.dtype:
        floor = number_type(needs.dtype).compute_capability
        has = offer.machine.gpu.compute_capability
        yield f"{needs.dtype} in hardware: it needs compute capability {floor}, and the GPU has {has}"


def _cheaper_but_unreliable(sizes: list[Offer]) -> Iterator[str]:
    """Yield a note if another size has a lower but unreliable price."""
    least = min(sizes, key=lambda each: each.price.usd_per_hour if each.price else float("inf"))
    if least.price and sizes[0].price and least.price.usd_per_hour < sizes[0].price.usd_per_hour:
        yield f"{least.machine.machine_type} may cost less, but its price is not reliable: {least.text}"


def _cheapest_with(needs: Needs) -> str:
    """Return the reason of the cheapest machine, with the needs that it meets."""
    requirements = []
    if needs.gpu_memory_gib:
        requirements.append(f"{needs.gpu_memory_gib:g} GiB")
    if needs.gpu_count > 1:
        requirements.append(f"{needs.gpu_count:g} GPUs")
    if needs.compute_capability:
        requirements.append(f"compute capability {needs.compute_capability}")
    if needs.dtype:
        requirements.append(needs.dtype)
    return f"cheapest with {' and '.join(requirements)}" if requirements else "cheapest"


def _caveats(offer: Offer, needs: Needs) -> Iterator[str]:
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
    if machine.architecture != "x86_64" and needs.architecture is None:
        yield f"the processor is {machine.architecture}"
    if gpu.last_driver_branch is not None:
        yield f"driver branch {gpu.last_driver_branch} is the last one that supports the {gpu.name}"
    if needs.dtype and (limitation := number_type(needs.dtype).partly.get(gpu.compute_capability)):
        yield f"{needs.dtype} is supported only in part: {limitation}"


def _torch(machine: Machine, needs: Needs, default: str) -> Iterator[str]:
    """Yield caveats about the torch version on the machine's GPU, with a version that runs there."""
    if not (torch := needs.torch or default):
        return
    verdict = torch_on(torch, machine.gpu.compute_capability, machine.architecture)
    for problem in verdict.problems:
        nearest = verdict.nearest and verdict.nearest.torch
        yield f"the default {problem.text.partition(': ')[0]}" + (f": take torch {nearest}" if nearest else "")
    yield from (f"unverified: {text}" for text in verdict.unknown)


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The reasons why no machine meets the needs."""

    needs: Needs
    machines: int
    """The number of machines that were compared."""
    excluded: Mapping[str, int]
    """The number of machines that each need excludes, largest first."""
    freed: Mapping[str, int]
    """For each need, the number of machines that would match without it. Needs with 0 are left out."""
    nearest: Machine
    unmet: tuple[MissingNeed, ...]
    """The needs that the nearest machine does not meet."""

    @property
    def need(self) -> str:
        """The need that excludes most machines."""
        return next(iter(self.excluded))

    @property
    def text(self) -> str:
        """All reasons as text."""
        without = [f"without {need} {count} would match" for need, count in self.freed.items()]
        sentences = [
            f"{self.need} excludes the most: {self.excluded[self.need]} of {self.machines} machines",
            *(without or ["no machine matches without one of the needs alone"]),
            f"the nearest is {self.nearest.key}: it {', '.join(need.text for need in self.unmet)}",
        ]
        return "; ".join(sentences)


# For each need: the value that every machine meets.
_DEFAULTS: dict[str, Any] = {each.name: 0 if each.name == "gpu_count" else each.default for each in fields(Needs)}


def explain_no_match(needs: Needs) -> NoMatch | None:
    """Return the reasons why `recommend` finds no machine, or None if it finds one."""
    unmet_by_machine = [(each, shortfalls(each, needs)) for each in candidates()]
    if not all(unmet for _, unmet in unmet_by_machine):
        return None
    nearest, unmet_by_nearest = min(unmet_by_machine, key=lambda pair: _distance(*pair))
    excluded = Counter(need.need for _, unmet in unmet_by_machine for need in unmet)
    freed = {need: _matching(replace(needs, **{need: _DEFAULTS[need]})) for need in excluded}
    machines = len(unmet_by_machine)
    return NoMatch(needs, machines, _most_first(excluded), _most_first(freed), nearest, tuple(unmet_by_nearest))


def _matching(needs: Needs) -> int:
    """Return the number of machines that meet the needs."""
    return sum(not shortfalls(each, needs) for each in candidates())


def _distance(machine: Machine, unmet: list[MissingNeed]) -> tuple[object, ...]:
    """Return the sort key: the fewest unmet needs, then the smallest difference, then the order of `recommend`."""
    return len(unmet), sum(need.distance for need in unmet), *rank(best(machine))


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort counts, the largest first, then by the order of the fields of `Needs`. Leave out counts of 0."""
    order = [*_DEFAULTS]
    return {
        need: counts[need]
        for need in sorted(counts, key=lambda need: (-counts[need], order.index(need)))
        if counts[need]
    }
