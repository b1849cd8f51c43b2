"""Where to ask for a machine: the pool's rungs, and what is remembered of places that had none to give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..memory import Cooldown, Memory
from ..model import InsertError, Pool, Reason, Rung
from .names import place, spot_place

# A place without a machine is asked again after a minute, then after twice as long each time, up to half an hour.
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 60.0, 1800.0
# Quotas are raised by people.
_QUOTA_PAUSE_SEC = 900.0
# How long Google's naming of another zone counts.
_PREFERRED_SEC = 300.0
# RunsOn's figures, in its template.yaml (runs-on/runs-on@3e98e5c): 2 interruptions in 15 minutes, then 30 minutes.
_BREAKER_COUNT, _BREAKER_WITHIN_SEC, _BREAKER_OPEN_SEC = 2, 900.0, 1800.0
# One quota of Google counts GPUs in all regions together (cloud.google.com/compute/resource-usage).
_ALL_REGIONS = "GPUS-ALL-REGIONS"


def choose(pool: Pool, memory: Memory, now: float, steady: bool) -> Rung | Reason:
    """The first rung that may be asked now; a reason where there is none.

    `steady` keeps away from machines that can be taken back, as far as the pool has others.
    """
    # A pool without any open rung asks each place again after the shortest pause: it has nothing to lose.
    for starved in (False, True):
        open_rungs = list(_open(pool, memory, now, starved))
        firm = [rung for rung in open_rungs if not rung.preemptible]
        if steady and any(not rung.preemptible for rung in pool.rungs):
            open_rungs = firm
        elif firm:
            open_rungs = [rung for rung in open_rungs if not (rung.preemptible and _broken(rung, memory, now))]
        if open_rungs:
            # `min` takes the first of equals, in the order of the ladder.
            return min(open_rungs, key=lambda rung: _order(rung, pool, memory, now))
    return _why_none(pool, memory, now)


def _order(rung: Rung, pool: Pool, memory: Memory, now: float) -> tuple[bool, int, bool]:
    """Where the rung comes: zones that Google named, then the ladder's order.

    Zones of one region that follow each other on the ladder are of equal worth. Of these the ones without a stockout
    that is remembered come first, as each wrong zone costs the job the time of an answer.
    """
    alike = [_kind(each) for each in pool.rungs]
    step = sum(a != b for a, b in itertools.pairwise(alike[: pool.rungs.index(rung) + 1]))
    return memory.preferred.get(place(rung), 0) <= now, step, place(rung) in memory.cooldowns


def _kind(rung: Rung) -> tuple[str, str, str]:
    return rung.region, rung.machine_type, rung.market


def failed(rung: Rung, error: InsertError, memory: Memory, now: float) -> None:
    """Remember that Google had no machine, or no quota, for an insert on this rung."""
    if error.kind == "no-capacity":
        earlier = memory.cooldowns.get(place(rung))
        # Several inserts that were sent together fail together, and count as one stockout.
        if not _failed_lately(earlier, now):
            stockouts = earlier.stockouts + 1 if earlier else 1
            memory.cooldowns[place(rung)] = Cooldown(now + _pause_sec(stockouts), stockouts, error.zones_available)
        memory.preferred.pop(place(rung), None)
        for zone in error.zones_available:
            there = place(Rung(zone, rung.machine_type, rung.market))
            if _failed_lately(memory.cooldowns.get(there), now):
                # Two zones without machines may name each other.
                continue
            memory.cooldowns.pop(there, None)
            memory.preferred[there] = now + _PREFERRED_SEC
    elif error.kind == "over-quota":
        memory.closed_quotas[_quota_key(rung, error.quota)] = (now + _QUOTA_PAUSE_SEC, error.quota or error.message)


def _pause_sec(stockouts: int) -> float:
    """The pause after so many stockouts in a row."""
    # The exponent is limited because a zone may have no machine for months.
    return float(min(_FIRST_PAUSE_SEC * 2 ** min(stockouts - 1, 10), _LONGEST_PAUSE_SEC))


def _failed_lately(cooldown: Cooldown | None, now: float) -> bool:
    """Whether an insert failed there within the shortest pause."""
    return cooldown is not None and now < _earliest(cooldown)


def _earliest(cooldown: Cooldown) -> float:
    """When the shortest pause after the last stockout is over."""
    return cooldown.until - _pause_sec(cooldown.stockouts) + _FIRST_PAUSE_SEC


def worked(rung: Rung, memory: Memory) -> None:
    """Forget what was remembered against a place that has just given a machine."""
    memory.cooldowns.pop(place(rung), None)


def taken_back(where: str, memory: Memory, now: float) -> None:
    """Remember a preemption in a region of a machine type."""
    recent = [when for when in memory.preemptions.get(where, []) if now - when < _BREAKER_OPEN_SEC]
    memory.preemptions[where] = [*recent, now]


def forget_old(memory: Memory, now: float) -> None:
    """Drop what counts no more."""
    memory.preferred = {key: until for key, until in memory.preferred.items() if until > now}
    memory.closed_quotas = {key: closed for key, closed in memory.closed_quotas.items() if closed[0] > now}
    # A place that was quiet for an hour after its pause begins with a short pause again.
    memory.cooldowns = {
        key: each for key, each in memory.cooldowns.items() if now < each.until + 2 * _LONGEST_PAUSE_SEC
    }
    memory.preemptions = {
        key: recent
        for key, times in memory.preemptions.items()
        if (recent := [when for when in times if now - when < _BREAKER_OPEN_SEC])
    }


def _open(pool: Pool, memory: Memory, now: float, starved: bool) -> Iterator[Rung]:
    """The rungs that nothing speaks against, in the pool's order; `starved` ends each pause early."""
    asked = {place(pending.rung) for pending in memory.pending.values()}
    for rung in pool.rungs:
        cooldown = memory.cooldowns.get(place(rung))
        # After a pause one insert finds out for all; the next one waits for its answer.
        probing = cooldown is not None and place(rung) in asked
        pauses = cooldown is not None and now < (_earliest(cooldown) if starved else cooldown.until)
        if not (_too_dear(rung, pool) or _quota(rung, memory, now) or probing or pauses):
            yield rung


def _why_none(pool: Pool, memory: Memory, now: float) -> Reason:
    """Of several reasons the one that time mends first: capacity, then quota, then the price."""
    affordable = [rung for rung in pool.rungs if not _too_dear(rung, pool)]
    if not affordable:
        return Reason("price-ceiling", f"every rung costs more than {pool.price_ceiling_usd} USD an hour")
    closed = {rung: found for rung in affordable if (found := _quota(rung, memory, now))}
    if len(closed) == len(affordable):
        until, quota = min(closed.values())
        return Reason("over-quota", f"the quota {quota} is used up in {_regions(affordable)}", until)
    out = {
        rung: cooldown
        for rung in affordable
        if rung not in closed and (cooldown := memory.cooldowns.get(place(rung))) is not None
    }
    zones = ", ".join(dict.fromkeys(rung.zone for rung in out)) or "no zone that may be asked now"
    # A probe that is on its way has no time of its own.
    later = [_earliest(cooldown) for cooldown in out.values() if _failed_lately(cooldown, now)]
    return Reason("no-capacity", f"no machine in {zones}", min(later, default=None))


def _regions(rungs: list[Rung]) -> str:
    return ", ".join(dict.fromkeys(rung.region for rung in rungs))


def _too_dear(rung: Rung, pool: Pool) -> bool:
    ceiling = pool.price_ceiling_usd
    return ceiling is not None and rung.usd_per_hour is not None and rung.usd_per_hour > ceiling


def _quota_key(rung: Rung, quota: str) -> str:
    """What a used-up quota closes: GPUs of one kind and market in a region, or all GPUs."""
    return (
        _ALL_REGIONS if _ALL_REGIONS in quota.replace("_", "-").upper() else f"{rung.region} {rung.gpu} {rung.market}"
    )


def _quota(rung: Rung, memory: Memory, now: float) -> tuple[float, str] | None:
    found = [memory.closed_quotas.get(key) for key in (_quota_key(rung, ""), _ALL_REGIONS)]
    return next((closed for closed in found if closed and closed[0] > now), None)


def _broken(rung: Rung, memory: Memory, now: float) -> bool:
    """Whether so many spot machines were taken back here that none is bought for a while."""
    times = memory.preemptions.get(spot_place(rung.region, rung.machine_type), [])
    close = [b for a, b in zip(times, times[_BREAKER_COUNT - 1 :], strict=False) if b - a <= _BREAKER_WITHIN_SEC]
    return any(now - when < _BREAKER_OPEN_SEC for when in close)
