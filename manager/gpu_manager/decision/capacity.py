"""Where to ask for a machine: the pool's rungs, and what is remembered of places that had none to give."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..memory import Cooldown, Memory, StoppedPool
from ..model import InsertError, Pool, Reason, Rung
from .names import offer, place, spot_place

# A place without a machine is asked again after a minute, then after twice as long each time, up to half an hour.
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 60.0, 1800.0
# Quotas are raised by people.
_QUOTA_PAUSE_SEC = 900.0
# What Google refuses for another reason than capacity or quota is mended by people.
_REFUSED_PAUSE_SEC = 300.0
# How long Google's naming of another zone counts.
_PREFERRED_SEC = 300.0
# RunsOn's figures, in its template.yaml (runs-on/runs-on@3e98e5c): 2 interruptions in 15 minutes, then 30 minutes.
_BREAKER_COUNT, _BREAKER_WITHIN_SEC, _BREAKER_OPEN_SEC = 2, 900.0, 1800.0
# One quota of Google counts GPUs in all regions together (cloud.google.com/compute/resource-usage).
_ALL_REGIONS = "GPUS-ALL-REGIONS"

FOR_PEOPLE = ("refused", "pool-stopped", "price-ceiling")
"""Reasons that a person has to end."""
# Of several reasons the first one is named: it is the one that time ends first.
_ORDER = ("no-capacity", "over-quota", *FOR_PEOPLE)


def choose(pool: Pool, memory: Memory, now: float, steady: bool) -> Rung | Reason:
    """The first rung that may be asked now; a reason where there is none.

    `steady` keeps away from machines that can be taken back, as far as the pool has others.
    """
    firm = tuple(rung for rung in pool.rungs if not rung.preemptible)
    rungs = firm if steady and firm else pool.rungs
    asked = {place(pending.rung) for pending in memory.pending.values()} if memory.cooldowns else frozenset()
    against: dict[Rung, Reason | None] = {}
    # A pool without any open rung asks each place again after the shortest pause: it has nothing to lose.
    for starved in (False, True):
        against = {rung: _against(pool, rung, asked, memory, now, starved) for rung in rungs}
        open_rungs = [rung for rung, reason in against.items() if reason is None]
        # Spot machines are bought elsewhere, or not at all, while they are taken back here; where nothing else is open
        # they are better than no machine.
        calm = [rung for rung in open_rungs if is_calm(rung, memory)]
        if open_rungs:
            # `min` takes the first of equals, in the order of the ladder.
            return min(calm or open_rungs, key=lambda rung: _order(rung, pool, memory))
    return _why_none(pool, [(rung, reason) for rung, reason in against.items() if reason])


def _order(rung: Rung, pool: Pool, memory: Memory) -> tuple[bool, int, bool]:
    """Where the rung comes: zones that Google named, then the ladder's order.

    Zones of one region that follow each other on the ladder are of equal worth. Of these the ones without a stockout
    that is remembered come first, as each wrong zone costs the job the time of an answer.
    """
    alike = [_kind(each) for each in pool.rungs]
    step = sum(a != b for a, b in itertools.pairwise(alike[: pool.rungs.index(rung) + 1]))
    return place(rung) not in memory.preferred, step, place(rung) in memory.cooldowns


def _kind(rung: Rung) -> tuple[str, str, str]:
    return rung.region, rung.machine_type, rung.market


def is_probe(rung: Rung, memory: Memory) -> bool:
    """Whether an insert on this rung finds out for all others whether a place has machines again."""
    return place(rung) in memory.cooldowns


def stockouts(rung: Rung, memory: Memory) -> int:
    """How often in a row the place had no machine."""
    cooldown = memory.cooldowns.get(place(rung))
    return cooldown.stockouts if cooldown else 0


def is_open(pool: Pool, rung: Rung, memory: Memory, now: float) -> bool:
    """Whether nothing speaks against a machine on this rung now."""
    asked = {place(pending.rung) for pending in memory.pending.values()}
    return _against(pool, rung, asked, memory, now, starved=False) is None and is_calm(rung, memory)


def is_calm(rung: Rung, memory: Memory) -> bool:
    """Whether the machine is not one of the spot machines that are taken back there lately."""
    return not (rung.preemptible and _broken(rung, memory))


def stopped(pool: Pool, memory: Memory) -> StoppedPool | None:
    """Why the pool starts nothing more: the machines of each of its templates would end as one of them did."""
    ends = [memory.stopped.get(template) for template in pool.templates]
    return ends[0] if all(ends) else None


def failed(pool: str, rung: Rung, error: InsertError, memory: Memory, now: float) -> None:
    """Remember why Google made no machine for an insert of this pool on this rung."""
    if error.kind == "no-capacity":
        earlier = memory.cooldowns.get(place(rung))
        # Several inserts that were sent together fail together, and count as one stockout.
        if not _failed_lately(earlier, now):
            stockouts = earlier.stockouts + 1 if earlier else 1
            memory.cooldowns[place(rung)] = Cooldown(now + pause_sec(stockouts), stockouts, error.zones_available)
        memory.preferred.pop(place(rung), None)
        for zone in error.zones_available:
            there = place(replace(rung, zone=zone))
            if _failed_lately(memory.cooldowns.get(there), now):
                # Two zones without machines may name each other.
                continue
            memory.cooldowns.pop(there, None)
            memory.preferred[there] = now + _PREFERRED_SEC
    elif error.kind == "over-quota":
        memory.closed_quotas[_quota_key(rung, error.quota)] = (now + _QUOTA_PAUSE_SEC, error.quota or error.message)
    else:
        # Another machine type, market or region may be allowed.
        memory.refusals[offer(pool, rung)] = (now + _REFUSED_PAUSE_SEC, error.message)


def not_registered(pool: str, why: str, memory: Memory, now: float) -> None:
    """Start nothing for a pool for a while: the next machine would wait for its runner in vain, too."""
    memory.refusals[pool] = (now + _REFUSED_PAUSE_SEC, f"no runner could be registered: {why}")


def pause_sec(stockouts: int) -> float:
    """The pause after so many failures in a row, 1 at least."""
    # The exponent is limited because a zone may have no machine for months.
    return float(min(_FIRST_PAUSE_SEC * 2 ** min(stockouts - 1, 10), _LONGEST_PAUSE_SEC))


def _failed_lately(cooldown: Cooldown | None, now: float) -> bool:
    """Whether an insert failed there within the shortest pause."""
    return cooldown is not None and now < _earliest(cooldown)


def _earliest(cooldown: Cooldown) -> float:
    """When the shortest pause after the last stockout is over."""
    return cooldown.until - pause_sec(cooldown.stockouts) + _FIRST_PAUSE_SEC


def worked(rung: Rung, memory: Memory) -> None:
    """Forget what was remembered against a place that has just given a machine."""
    memory.cooldowns.pop(place(rung), None)


def taken_back(where: str, memory: Memory, now: float) -> None:
    """Remember a preemption in a region of a machine type."""
    memory.preemptions.setdefault(where, []).append(now)


def forget_old(memory: Memory, now: float) -> None:
    """Drop what counts no more. What is left in the memory counts for the whole pass."""
    memory.preferred = {key: until for key, until in memory.preferred.items() if until > now}
    memory.closed_quotas = {key: closed for key, closed in memory.closed_quotas.items() if closed[0] > now}
    memory.refusals = {key: refusal for key, refusal in memory.refusals.items() if refusal[0] > now}
    # A place that was quiet for an hour after its pause begins with a short pause again.
    memory.cooldowns = {
        key: each for key, each in memory.cooldowns.items() if now < each.until + 2 * _LONGEST_PAUSE_SEC
    }
    memory.preemptions = {
        key: recent
        for key, times in memory.preemptions.items()
        if (recent := [when for when in times if now - when < _BREAKER_OPEN_SEC])
    }


def _against(pool: Pool, rung: Rung, asked: Iterable[str], memory: Memory, now: float, starved: bool) -> Reason | None:
    """What speaks against asking for a machine on this rung now; `starved` ends each pause early."""
    if pool.price_ceiling_usd is not None and (rung.usd_per_hour or 0) > pool.price_ceiling_usd:
        return Reason("price-ceiling", f"costs more than {pool.price_ceiling_usd} USD an hour")
    if end := memory.stopped.get(pool.template_of(rung)):
        return Reason("pool-stopped", f"{end.machine} ended with {end.reason}: {end.detail}")
    if refused := memory.refusals.get(pool.name):
        return Reason("refused", refused[1], refused[0])
    if refused := memory.refusals.get(offer(pool.name, rung)):
        return Reason("refused", f"Google refuses the machine: {refused[1]}", refused[0])
    for key in (_quota_key(rung, ""), _ALL_REGIONS):
        if closed := memory.closed_quotas.get(key):
            return Reason("over-quota", f"the quota {closed[1]} is used up", closed[0])
    cooldown = memory.cooldowns.get(place(rung))
    if cooldown and (until := _earliest(cooldown) if starved else cooldown.until) > now:
        return Reason("no-capacity", "no machine", until)
    if cooldown and place(rung) in asked:
        # After a pause one insert finds out for all. The next one waits for its answer, whose time nobody knows.
        return Reason("no-capacity", "no machine")
    return None


def _why_none(pool: Pool, against: Sequence[tuple[Rung, Reason]]) -> Reason:
    """What speaks against all rungs as one reason: its code is that of the one that time ends first."""
    [code, *_] = sorted({reason.code for _, reason in against}, key=_ORDER.index)
    if code == "price-ceiling":
        return Reason(code, f"every rung costs more than {pool.price_ceiling_usd} USD an hour")
    where: dict[tuple[str, str], list[Rung]] = {}
    for rung, reason in sorted(against, key=lambda each: _ORDER.index(each[1].code)):
        where.setdefault((reason.code, reason.detail), []).append(rung)
    details = "; ".join(_detail(pool, code, detail, rungs) for (code, detail), rungs in where.items())
    times = [reason.next_try for _, reason in against if reason.next_try is not None]
    return Reason(code, details, min(times, default=None))


def _detail(pool: Pool, code: str, detail: str, rungs: Sequence[Rung]) -> str:
    """One reason, and the rungs that it closes."""
    offers = {(rung.machine_type, rung.market) for rung in pool.rungs}
    if code == "over-quota":
        return f"{detail} in {_list(rung.region for rung in rungs)}"
    if code == "no-capacity" and len(offers) == 1:
        return f"{detail} in {_list(rung.zone for rung in rungs)}"
    if code == "no-capacity":
        zones: dict[str, list[str]] = {}
        for rung in rungs:
            zones.setdefault(f"{rung.machine_type} ({rung.market})", []).append(rung.zone)
        return "; ".join(f"no {machine} in {_list(places)}" for machine, places in zones.items())
    if code == "price-ceiling":
        return f"{_list(f'{rung.machine_type} ({rung.market})' for rung in rungs)} {detail}"
    return detail


def _list(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _quota_key(rung: Rung, quota: str) -> str:
    """What a used-up quota closes: GPUs of one kind and market in a region, or all GPUs."""
    return (
        _ALL_REGIONS if _ALL_REGIONS in quota.replace("_", "-").upper() else f"{rung.region} {rung.gpu} {rung.market}"
    )


def _broken(rung: Rung, memory: Memory) -> bool:
    """Whether so many spot machines were taken back here that none is bought for a while."""
    times = memory.preemptions.get(spot_place(rung.region, rung.machine_type), [])
    return any(b - a <= _BREAKER_WITHIN_SEC for a, b in zip(times, times[_BREAKER_COUNT - 1 :], strict=False))
