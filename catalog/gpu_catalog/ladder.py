"""Creates and checks capacity ladders: the ordered lists of machine types, markets and regions that pools try.

An entry of a ladder is a rung (`Rung`). The first rung is tried first. Every rung must meet the needs of the job
(`needs.Needs`), such as GPU memory.
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

# If a cloud has no machine, it reports this within about this time. Markets with a queue, such as flex-start, need more
# time.
TIMEOUT_SEC = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One entry of a ladder: a machine type, a market and a region."""

    machine: str
    """A machine type or the key of a machine, such as g2-standard-8 or n1-standard-8+nvidia-tesla-t4x1."""
    market: str
    region: str
    zones: tuple[str, ...] = ()
    """Zones of the region, tried together. If empty, the cloud chooses the zone."""
    cloud: Cloud | None = None
    """The cloud; None for the cloud that has the machine type."""
    timeout_sec: int = TIMEOUT_SEC
    """The time before the next rung is tried."""


@dataclass(frozen=True, slots=True)
class RungProblem:
    """One problem of a ladder."""

    at: tuple[str | int, ...]
    """The path: the index of the rung, the field, and the index in a list; empty for the whole ladder."""
    text: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"rung {int(self.at[0]) + 1}: " if self.at else ""
        return where + self.text + (f"; {self.hint}" if self.hint else "")


class NoLadder(LookupError):  # noqa: N818 - the name describes the error
    """An error for requirements that no ladder can meet."""


def check_ladder(rungs: Sequence[Rung], needs: Needs | None = None) -> list[RungProblem]:
    """Return every problem of a ladder.

    Without `needs`, the machine of the first rung sets the needs: every other rung must have as many GPUs, with at
    least the same memory and compute capability. An unknown price counts as within the budget.
    """
    if not rungs:
        return [RungProblem((), "has no rung")]
    first, hint = _machine(rungs[0])[0], ""
    if needs is None and first is not None:
        needs, hint = needs_of(first), "no rung may have less than the first, unless the ladder has needs"
    problems, earlier_rungs = [], dict[tuple[str, str, str], int]()
    for number, rung in enumerate(rungs):
        found = [*_rung_problems(rung, needs, hint), *_repeated(number, rung, earlier_rungs)]
        problems += [RungProblem((number, *each.at), each.text, each.hint) for each in found]
    return problems


def _machine(rung: Rung) -> tuple[Machine | None, list[RungProblem]]:
    """Return the machine of a rung, or the problem with its name."""
    try:
        if rung.cloud not in (None, *CLOUDS):
            return None, [RungProblem(("cloud",), f"unknown cloud {rung.cloud!r}", f"one of {', '.join(CLOUDS)}")]
        return queries.machine(rung.machine, rung.cloud), []
    except UnknownName as error:
        return None, [RungProblem(("machine",), f"unknown {error.kind} {error.name!r}", error.hint)]
    except DoesNotFit as error:
        return None, [RungProblem(("machine",), str(error))]


def _market(rung: Rung) -> tuple[Market | None, list[RungProblem]]:
    try:
        return queries.market(rung.market), []
    except UnknownName as error:
        return None, [RungProblem(("market",), f"unknown {error.kind} {error.name!r}", error.hint)]


def _rung_problems(rung: Rung, needs: Needs | None, hint: str) -> Iterator[RungProblem]:
    """Yield the problems of one rung. Their paths are relative to the rung."""
    machine, no_machine = _machine(rung)
    market, no_market = _market(rung)
    yield from (*no_machine, *no_market)
    if rung.timeout_sec <= 0:
        yield RungProblem(("timeout_sec",), f"waits {rung.timeout_sec} seconds: must be more than 0")
    for index, zone in enumerate(rung.zones):
        if region_of(zone) != rung.region:
            yield RungProblem(("zones", index), f"{zone} is not in {rung.region}", "another region is another rung")
        elif zone in rung.zones[:index]:
            yield RungProblem(("zones", index), f"{zone} is listed twice")
    if machine is not None:
        yield from _solver_problems(machine, market, rung)
        yield from _unmet_needs(machine, market, rung, needs, hint)


def _solver_problems(machine: Machine, market: Market | None, rung: Rung) -> Iterator[RungProblem]:
    """Yield the problems that the solver finds with the machine, its market, its region and its zones."""
    for finding in solver.findings(solver.Setup(machine=machine, market=market)):
        yield RungProblem((finding.choice,), finding.text)
        if finding.choice == "machine":
            return
    zones = [(("zones", place), zone) for place, zone in enumerate(rung.zones) if region_of(zone) == rung.region]
    for at, where in [(("region",), rung.region), *zones]:
        for finding in solver.findings(solver.Setup(machine=machine, zone=where)):
            yield RungProblem(at, finding.text)
            if where == rung.region:
                return  # if the region does not have the machine, none of its zones has


def _unmet_needs(
    machine: Machine, market: Market | None, rung: Rung, needs: Needs | None, hint: str
) -> Iterator[RungProblem]:
    """Yield the needs of the job that the rung does not meet."""
    if needs is None:
        return
    for need in missing_needs(machine, replace(needs, market=None, region=None)):
        yield RungProblem(("machine",), f"{machine.key} {need.text}", hint)
    for name, requested, has in (("market", needs.market, market), ("region", needs.region, rung.region)):
        if requested is not None and has not in (None, requested):
            yield RungProblem((name,), f"is {has}, but the job needs {requested}")
    if market and (cost := _over_budget(machine, market, rung.region, needs)):
        yield RungProblem((), f"{machine.key} costs {usd(cost)}, and the budget is {needs.budget_usd_per_hour:g}")


def _over_budget(machine: Machine, market: Market, region: str, needs: Needs) -> float:
    """Return the price if it is above the budget, else 0. An unknown price counts as within the budget."""
    cost, budget = price(machine, region, market), needs.budget_usd_per_hour
    return cost.usd_per_hour if cost and budget and cost.usd_per_hour > budget else 0


def _repeated(number: int, rung: Rung, earlier_rungs: dict[tuple[str, str, str], int]) -> Iterator[RungProblem]:
    """Yield a problem for each zone or region that an earlier rung already tries.

    A rung for a region may follow a rung for zones of the region. The opposite order repeats the zones.
    """
    machine, market = _machine(rung)[0], _market(rung)[0]
    offer = (machine.key if machine else rung.machine, market or rung.market)
    for index, where in enumerate(rung.zones or (rung.region,)):
        earlier = earlier_rungs.get((*offer, where), earlier_rungs.get((*offer, rung.region), number))
        if earlier != number:
            at = ("zones", index) if rung.zones else ()
            yield RungProblem(at, f"rung {earlier + 1} already tries {offer[0]} as {offer[1]} in {where}")
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
    """Return a default ladder: a machine type in each market, then similar machine types in each market.

    Similar machine types have as many GPUs of another model, at least the same compute capability, and meet the needs.

    Args:
        machine: The machine type of the first rungs.
        needs: The needs of the job. By default: the GPUs, memory and compute capability of the machine type.
        regions: Regions, also of several clouds. By default the region with the lowest price.
        markets: The markets, in the order in which they are tried.
        neighbours: The number of similar machine types to add.
        timeout_sec: The time before the next rung is tried.

    Raises:
        NoLadder: The machine type itself does not meet the needs, or is not sold in these markets and regions.
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
        raise NoLadder("; ".join([*refused, *missing]) or f"{sold}, but requested is {requested}")
    others = (_rungs(each, floor, allowed_markets, where, timeout_sec) for each in _neighbours(own, floor, where))
    return (*first, *(rung for rungs in islice(filter(None, others), max(0, neighbours)) for rung in rungs))


def _cheapest_region(machine: Machine, needs: Needs, markets: Sequence[Market]) -> tuple[str, ...]:
    """Return the cheapest region of the first market that has a known price.

    Without any known price, return a region of the first market.
    """
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
    """Yield machines with as many GPUs of another model that meet the needs, by region, then by price."""
    at_least = max(needs.compute_capability, machine.gpu.compute_capability, key=capability)
    kinds = {_kind(machine)}
    for region in dict.fromkeys(regions):
        for found in recommend(replace(needs, market=None, region=region, compute_capability=at_least), limit=999):
            if found.machine.gpu_count == machine.gpu_count and _kind(found.machine) not in kinds:
                kinds.add(_kind(found.machine))
                yield found.machine


def _kind(machine: Machine) -> tuple[str, ...]:
    """Return a key for the hardware of a machine. If one machine with a key is sold out, the others often are, too."""
    return machine.cloud, machine.family, machine.gpu.key, machine.accelerator
