"""Capacity ladders as data: where to ask for a machine next when there is none, and what may not stand on one.

A ladder is tried from its first rung on. No rung may give a job less than it needs: a later GPU does the work of an
earlier one, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from . import queries, solver
from .errors import DoesNotFit, UnknownName
from .locations import region_of
from .models import CLOUDS, Cloud, Machine, Market
from .needs import Needs, capability, missing_needs, needs_of
from .offers import best, usd
from .prices import price
from .recommend import recommend

# About as long as a cloud takes to say that there is none; queued markets are given their own time.
TIMEOUT_SEC = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One place to ask: a machine, how it is bought, and where."""

    machine: str
    """A machine type, or a machine's key: g2-standard-8, n1-standard-8+nvidia-tesla-t4x1."""
    market: str
    region: str
    zones: tuple[str, ...] = ()
    """Zones of the region, tried together; none to leave them to the cloud."""
    cloud: Cloud | None = None
    """None for whichever cloud has that machine type."""
    timeout_sec: int = TIMEOUT_SEC
    """How long to wait before the next rung is tried."""


@dataclass(frozen=True, slots=True)
class RungProblem:
    """One thing that is wrong with a ladder."""

    at: tuple[str | int, ...]
    """Where it is: the number of the rung from 0 on, the field, and in a list the place in it; empty for the whole."""
    text: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"rung {int(self.at[0]) + 1}: " if self.at else ""
        return where + self.text + (f"; {self.hint}" if self.hint else "")


class NoLadder(LookupError):  # noqa: N818 - it reads as what it is where it is caught
    """No ladder can be built from what was asked for."""


def check_ladder(rungs: Sequence[Rung], needs: Needs | None = None) -> list[RungProblem]:
    """Everything that is wrong with a ladder; nothing for one in order.

    Without needs of its own, a job needs what the first rung's machine has: as many GPUs, each no smaller and no older.
    A budget is held against known prices only.
    """
    if not rungs:
        return [RungProblem((), "has no rung")]
    first, hint = _machine(rungs[0])[0], ""
    if needs is None and first is not None:
        needs, hint = needs_of(first), "no rung may have less than the first, unless the job's needs are given"
    problems, earlier_rungs = [], dict[tuple[str, str, str], int]()
    for number, rung in enumerate(rungs):
        found = [*_rung_problems(rung, needs, hint), *_repeated(number, rung, earlier_rungs)]
        problems += [RungProblem((number, *each.at), each.text, each.hint) for each in found]
    return problems


def _machine(rung: Rung) -> tuple[Machine | None, list[RungProblem]]:
    """The machine of a rung, or why there is none."""
    try:
        if rung.cloud not in (None, *CLOUDS):
            return None, [RungProblem(("cloud",), f"no cloud {rung.cloud!r}", f"they are {', '.join(CLOUDS)}")]
        return queries.machine(rung.machine, rung.cloud), []
    except UnknownName as error:
        return None, [RungProblem(("machine",), f"no {error.kind} {error.name!r}", error.hint)]
    except DoesNotFit as error:
        return None, [RungProblem(("machine",), str(error))]


def _market(rung: Rung) -> tuple[Market | None, list[RungProblem]]:
    try:
        return queries.market(rung.market), []
    except UnknownName as error:
        return None, [RungProblem(("market",), f"no {error.kind} {error.name!r}", error.hint)]


def _rung_problems(rung: Rung, needs: Needs | None, hint: str) -> Iterator[RungProblem]:
    """What is wrong with a rung by itself; `at` says only where in it."""
    machine, no_machine = _machine(rung)
    market, no_market = _market(rung)
    yield from (*no_machine, *no_market)
    if rung.timeout_sec <= 0:
        yield RungProblem(("timeout_sec",), f"waits {rung.timeout_sec} seconds: nothing comes that soon")
    for index, zone in enumerate(rung.zones):
        if region_of(zone) != rung.region:
            yield RungProblem(("zones", index), f"{zone} is not in {rung.region}", "another region is another rung")
        elif zone in rung.zones[:index]:
            yield RungProblem(("zones", index), f"{zone} is there twice")
    if machine is not None:
        yield from _solver_problems(machine, market, rung)
        yield from _unmet_needs(machine, market, rung, needs, hint)


def _solver_problems(machine: Machine, market: Market | None, rung: Rung) -> Iterator[RungProblem]:
    """What the solver has against it: a machine of AMD's, a market it is not sold in, a place without it."""
    for finding in solver.findings(solver.Setup(machine=machine, market=market)):
        yield RungProblem((finding.choice,), finding.text)
        if finding.choice == "machine":
            return
    zones = [(("zones", place), zone) for place, zone in enumerate(rung.zones) if region_of(zone) == rung.region]
    for at, where in [(("region",), rung.region), *zones]:
        for finding in solver.findings(solver.Setup(machine=machine, zone=where)):
            yield RungProblem(at, finding.text)
            if where == rung.region:
                return  # where the region has none, no zone has


def _unmet_needs(
    machine: Machine, market: Market | None, rung: Rung, needs: Needs | None, hint: str
) -> Iterator[RungProblem]:
    """What the job needs and would not get."""
    if needs is None:
        return
    for need in missing_needs(machine, replace(needs, market=None, region=None)):
        yield RungProblem(("machine",), f"{machine.key} {need.text}", hint)
    for name, requested, has in (("market", needs.market, market), ("region", needs.region, rung.region)):
        if requested is not None and has not in (None, requested):
            yield RungProblem((name,), f"is {has}, and the job asks for {requested}")
    if market and (cost := _over_budget(machine, market, rung.region, needs)):
        yield RungProblem((), f"{machine.key} costs {usd(cost)}, and the budget is {needs.budget_usd_per_hour:g}")


def _over_budget(machine: Machine, market: Market, region: str, needs: Needs) -> float:
    """The price that is over the budget, or nothing. Of an unknown price it is not said."""
    cost, budget = price(machine, region, market), needs.budget_usd_per_hour
    return cost.usd_per_hour if cost and budget and cost.usd_per_hour > budget else 0


def _repeated(number: int, rung: Rung, earlier_rungs: dict[tuple[str, str, str], int]) -> Iterator[RungProblem]:
    """Whatever an earlier rung asked for already. A whole region may follow some of its zones, not precede them."""
    machine, market = _machine(rung)[0], _market(rung)[0]
    offer = (machine.key if machine else rung.machine, market or rung.market)
    for index, where in enumerate(rung.zones or (rung.region,)):
        earlier = earlier_rungs.get((*offer, where), earlier_rungs.get((*offer, rung.region), number))
        if earlier != number:
            at = ("zones", index) if rung.zones else ()
            yield RungProblem(at, f"rung {earlier + 1} asks {where} for {offer[0]} as {offer[1]} already")
        earlier_rungs.setdefault((*offer, where), number)


def default_ladder(
    machine: str | Machine,
    needs: Needs | None = None,
    *,
    regions: Sequence[str] = (),
    markets: Sequence[str] = ("spot", "standard"),
    neighbours: int = 2,
    timeout_sec: int = TIMEOUT_SEC,
) -> tuple[Rung, ...]:
    """A sensible ladder for a machine: in all zones by the first market, then by the next, then its neighbours.

    Neighbours have as many GPUs of another kind and at least the same compute capability, and the job can do with them.
    `regions` may be of several clouds; without any it is the one where the machine costs least. NoLadder where the
    machine itself cannot stand on it.
    """
    own = queries.machine(machine) if isinstance(machine, str) else machine
    floor = needs or needs_of(own)
    allowed_markets = [word for word in dict.fromkeys(map(queries.market, markets)) if floor.market in (None, word)]
    refused = [each.text for each in solver.findings(solver.Setup(machine=own))]
    missing = [f"{own.key} {need.text}" for need in missing_needs(own, replace(floor, market=None, region=None))]
    where = [each for each in regions or _cheapest_region(own, floor, allowed_markets) if floor.region in (None, each)]
    first = _rungs(own, floor, allowed_markets, where, timeout_sec)
    if refused or missing or not first:
        sold = f"{own.key} is sold as {' and '.join(own.markets)} in {', '.join(own.regions) or 'no known region'}"
        most = f" for at most {usd(floor.budget_usd_per_hour)}" if floor.budget_usd_per_hour else ""
        requested = f"{' or '.join(allowed_markets) or 'no market'} in {' or '.join(where) or 'one of these'}{most}"
        raise NoLadder("; ".join([*refused, *missing]) or f"{sold}, but asked for is {requested}")
    others = (_rungs(each, floor, allowed_markets, where, timeout_sec) for each in _neighbours(own, floor, where))
    return (*first, *(rung for rungs in islice(filter(None, others), max(0, neighbours)) for rung in rungs))


def _cheapest_region(machine: Machine, needs: Needs, markets: Sequence[Market]) -> tuple[str, ...]:
    """The region of the first market with a known price; of the first market at all where there is none."""
    if needs.region or not machine.regions:
        return (needs.region,) if needs.region else ()
    found = [best(machine, market) for market in markets if market in machine.markets]
    return tuple(offer.region for offer in sorted(found, key=lambda offer: offer.price is None)[:1])


def _rungs(
    machine: Machine, needs: Needs, markets: Sequence[Market], regions: Sequence[str], timeout_sec: int
) -> list[Rung]:
    return [
        Rung(
            machine=machine.key,
            market=market,
            region=region,
            zones=queries.zones(machine, region),
            cloud=machine.cloud,
            timeout_sec=timeout_sec,
        )
        for market in markets
        for region in dict.fromkeys(regions)
        if market in machine.markets and region in machine.regions
        if not _over_budget(machine, market, region, needs)
    ]


def _neighbours(machine: Machine, needs: Needs, regions: Sequence[str]) -> Iterator[Machine]:
    """Machines with as many GPUs of another kind that do its work: those of the first region first, cheapest first."""
    at_least = max(needs.compute_capability, machine.gpu.compute_capability, key=capability)
    kinds = {_kind(machine)}
    for region in dict.fromkeys(regions):
        for found in recommend(replace(needs, market=None, region=region, compute_capability=at_least), limit=999):
            if found.machine.gpu_count == machine.gpu_count and _kind(found.machine) not in kinds:
                kinds.add(_kind(found.machine))
                yield found.machine


def _kind(machine: Machine) -> tuple[str, ...]:
    """Machines of one kind draw on the same stock: where one is not to be had, the others hardly are."""
    return machine.cloud, machine.family, machine.gpu.key, machine.accelerator
