"""Selects the rung on which to request a machine, from the pool's ladder and the memory of failed requests.

A rung is one entry of the ladder, and its place is the zone, machine type and market of this entry. After a stockout
(Google has no capacity at a place) the place gets a pause, which grows with each consecutive stockout. After a pause
one insert tests the place for all jobs. After several preemptions of one machine type in a region, a breaker avoids
spot machines of that type there (`_breaker_is_open`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..memory import Cooldown, Memory, StoppedPool
from ..model import InsertError, Offer, Pool, Reason

# The next request to a place without capacity follows after a minute. The pause doubles each time, up to half an hour.
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 60.0, 1800.0
# The pause after a refusal by quota. Machines of other programs, such as a check machine of the gate, free it unseen.
_QUOTA_PAUSE_SEC = 120.0
# The pause after any other refusal, whose cause only a person can correct.
_REFUSED_PAUSE_SEC = 300.0
# How long a zone that Google's answer names as available is preferred.
_PREFERRED_SEC = 300.0
# The values of RunsOn's template.yaml (runs-on/runs-on@3e98e5c): 2 interruptions in 15 minutes, then 30 minutes.
_BREAKER_COUNT, _BREAKER_WITHIN_SEC, _BREAKER_OPEN_SEC = 2, 900.0, 1800.0
# One Google quota counts the GPUs of all regions (cloud.google.com/compute/resource-usage).
_ALL_REGIONS = "GPUS-ALL-REGIONS"

FOR_PEOPLE = ("refused", "pool-stopped", "price-ceiling")
"""Reasons that end only when a person acts."""
# If the rungs have different reasons, the first in this order is reported, because it is likely to end soonest.
_ORDER = ("no-capacity", "over-quota", *FOR_PEOPLE)


def without_preemptible(rungs: Sequence[Offer]) -> Sequence[Offer]:
    """Return the rungs that are not preemptible, or all rungs if there is none."""
    return [rung for rung in rungs if not rung.preemptible] or rungs


def choose(pool: Pool, rungs: Sequence[Offer], memory: Memory, now: float) -> Offer | Reason:
    """Return the first of these rungs of a pool on which a machine may be requested now, or the reason against all."""
    # Only a place with a remembered stockout waits for the answer to a pending request.
    awaited_places = {place(pending.rung) for pending in memory.pending.values()} if memory.cooldowns else frozenset()
    reason_by_rung: dict[Offer, Reason | None] = {}
    # If no rung of the pool is open, the shortest pause applies to each place instead of the place's own pause.
    for shorten_pauses in (False, True):
        reason_by_rung = {
            rung: _reason_against(pool, rung, awaited_places, memory, now, shorten_pauses) for rung in rungs
        }
        open_rungs = [rung for rung, reason in reason_by_rung.items() if reason is None]
        # Spot machines with recent preemptions are avoided. If no other place is open, such a machine is better than
        # none.
        calm_rungs = [rung for rung in open_rungs if has_few_preemptions(rung, memory)]
        if open_rungs:
            # `min` returns the first of equal rungs, so the order of the ladder decides.
            return min(calm_rungs or open_rungs, key=lambda rung: _sort_key(rung, pool, memory))
    return _merged_reason(pool, [(rung, reason) for rung, reason in reason_by_rung.items() if reason])


def _sort_key(rung: Offer, pool: Pool, memory: Memory) -> tuple[bool, int, bool]:
    """Return the sort key of the rung: zones that Google named come first, then the order of the ladder.

    Consecutive rungs in zones of one region are equal. Of these, zones without a remembered stockout come first,
    because each failed request delays the job.
    """
    kinds = [_kind(each) for each in pool.rungs]
    position = sum(a != b for a, b in itertools.pairwise(kinds[: pool.rungs.index(rung) + 1]))
    return place(rung) not in memory.preferred, position, place(rung) in memory.cooldowns


def _kind(rung: Offer) -> tuple[str, str, str]:
    return rung.region, rung.machine_type, rung.market


def is_test_insert(rung: Offer, memory: Memory) -> bool:
    """Return True if the place had a stockout. The next insert then tests the place, and later inserts wait for
    its answer."""
    return place(rung) in memory.cooldowns


def stockouts(rung: Offer, memory: Memory) -> int:
    """Return the number of consecutive stockouts of the place."""
    cooldown = memory.cooldowns.get(place(rung))
    return cooldown.stockouts if cooldown else 0


def is_open(pool: Pool, rung: Offer, memory: Memory, now: float) -> bool:
    """Return True if a machine may be requested on this rung now."""
    awaited_places = {place(pending.rung) for pending in memory.pending.values()}
    return _reason_against(
        pool, rung, awaited_places, memory, now, shorten_pauses=False
    ) is None and has_few_preemptions(rung, memory)


def has_few_preemptions(rung: Offer, memory: Memory) -> bool:
    """Return False for a rung whose spot place had recent preemptions, and True for any other rung."""
    return not (rung.preemptible and _breaker_is_open(rung, memory))


def stopped_pool(pool: Pool, memory: Memory) -> StoppedPool | None:
    """Return the failed machine that stops the pool, or None. A pool stops when each of its templates has a
    failed machine."""
    ends = [memory.stopped.get(template) for template in pool.templates]
    return ends[0] if all(ends) else None


def remember_failure(pool: str, rung: Offer, error: InsertError, memory: Memory, now: float) -> None:
    """Remember the error of an insert or a start of this pool on this rung."""
    if error.kind == "no-capacity":
        earlier = memory.cooldowns.get(place(rung))
        # Inserts that were sent together fail together, and count as one stockout.
        if not _failed_recently(earlier, now):
            stockouts = earlier.stockouts + 1 if earlier else 1
            memory.cooldowns[place(rung)] = Cooldown(now + pause_sec(stockouts), stockouts, error.zones_available)
        memory.preferred.pop(place(rung), None)
        for zone in error.zones_available:
            named_place = place(rung, zone)
            if _failed_recently(memory.cooldowns.get(named_place), now):
                # Google may name two zones without capacity, each in the error of the other zone.
                continue
            memory.cooldowns.pop(named_place, None)
            memory.preferred[named_place] = now + _PREFERRED_SEC
    elif error.kind == "over-quota":
        memory.closed_quotas[_quota_key(rung, error.quota)] = (now + _QUOTA_PAUSE_SEC, error.quota or error.message)
    else:
        # Google may allow another machine type, market or region.
        memory.refusals[refusal_key(pool, rung)] = (now + _REFUSED_PAUSE_SEC, error.message)


def remember_refused_runner(pool: str, reason: str, memory: Memory, now: float) -> None:
    """Remember that GitHub refused a runner of the pool. A new machine would get no runner either, so none starts for a
    while.
    """
    memory.refusals[pool] = (now + _REFUSED_PAUSE_SEC, f"no runner could be registered: {reason}")


def pause_sec(stockouts: int) -> float:
    """Return the pause after `stockouts` consecutive failures. `stockouts` is at least 1."""
    # The exponent is limited, because a zone may have no capacity for months.
    return float(min(_FIRST_PAUSE_SEC * 2 ** min(stockouts - 1, 10), _LONGEST_PAUSE_SEC))


def _failed_recently(cooldown: Cooldown | None, now: float) -> bool:
    """Return True if an insert failed at the place of this cooldown within the shortest pause."""
    return cooldown is not None and now < _shortest_pause_end(cooldown)


def _shortest_pause_end(cooldown: Cooldown) -> float:
    """Return the time when the shortest pause after the last stockout ends."""
    return cooldown.until - pause_sec(cooldown.stockouts) + _FIRST_PAUSE_SEC


def forget_stockouts(rung: Offer, memory: Memory) -> None:
    """Forget the stockouts of a place, because a machine was just created there."""
    memory.cooldowns.pop(place(rung), None)


def forget_used_up_quota(pool: Pool, where: str, memory: Memory) -> None:
    """Forget the used-up quotas of which a deleted machine of this pool had a part. `where` is a key of spot_place."""
    for rung in pool.rungs:
        if spot_place(rung.region, rung.machine_type) == where:
            memory.closed_quotas.pop(_quota_key(rung, ""), None)
            memory.closed_quotas.pop(_ALL_REGIONS, None)


def count_preemption(where: str, memory: Memory, now: float) -> None:
    """Remember a preemption. `where` is the key of spot_place: a machine type in a region."""
    memory.preemptions.setdefault(where, []).append(now)


def forget_old(memory: Memory, now: float) -> None:
    """Drop expired entries at the start of a pass. The remaining entries count for the whole pass."""
    memory.preferred = {key: until for key, until in memory.preferred.items() if until > now}
    memory.closed_quotas = {key: closed for key, closed in memory.closed_quotas.items() if closed[0] > now}
    memory.refusals = {key: refusal for key, refusal in memory.refusals.items() if refusal[0] > now}
    # An hour after the end of its pause, the stockouts of a place are forgotten. Its next pause is short again.
    memory.cooldowns = {
        key: each for key, each in memory.cooldowns.items() if now < each.until + 2 * _LONGEST_PAUSE_SEC
    }
    memory.preemptions = {
        key: recent
        for key, times in memory.preemptions.items()
        if (recent := [when for when in times if now - when < _BREAKER_OPEN_SEC])
    }


def _reason_against(
    pool: Pool, rung: Offer, awaited_places: Iterable[str], memory: Memory, now: float, shorten_pauses: bool
) -> Reason | None:
    """Return the reason against a request on this rung now, or None.

    With `shorten_pauses`, the shortest pause applies to the place instead of its own pause.
    """
    if pool.price_ceiling_usd is not None and (rung.usd_per_hour or 0) > pool.price_ceiling_usd:
        return Reason("price-ceiling", f"costs more than {pool.price_ceiling_usd} USD an hour")
    if end := memory.stopped.get(pool.template_of(rung)):
        return Reason("pool-stopped", f"{end.machine} ended with {end.reason}: {end.detail}")
    if refused := memory.refusals.get(pool.name):
        return Reason("refused", refused[1], refused[0])
    if refused := memory.refusals.get(refusal_key(pool.name, rung)):
        return Reason("refused", f"the machine is refused: {refused[1]}", refused[0])
    for key in (_quota_key(rung, ""), _ALL_REGIONS):
        if closed := memory.closed_quotas.get(key):
            return Reason("over-quota", f"the quota {closed[1]} is used up", closed[0])
    cooldown = memory.cooldowns.get(place(rung))
    if cooldown and (until := _shortest_pause_end(cooldown) if shorten_pauses else cooldown.until) > now:
        return Reason("no-capacity", "no machine", until)
    if cooldown and place(rung) in awaited_places:
        # One insert tests the place after its pause. Other inserts wait for the answer, whose time is unknown.
        return Reason("no-capacity", "no machine")
    return None


def _merged_reason(pool: Pool, reason_by_rung: Sequence[tuple[Offer, Reason]]) -> Reason:
    """Merge the reasons against all rungs into one, with the code of the reason that is likely to end soonest."""
    [code, *_] = sorted({reason.code for _, reason in reason_by_rung}, key=_ORDER.index)
    if code == "price-ceiling":
        return Reason(code, f"every step of the ladder costs more than {pool.price_ceiling_usd} USD an hour")
    rungs_by_reason: dict[tuple[str, str], list[Offer]] = {}
    for rung, reason in sorted(reason_by_rung, key=lambda each: _ORDER.index(each[1].code)):
        rungs_by_reason.setdefault((reason.code, reason.detail), []).append(rung)
    details = "; ".join(_detail(pool, code, detail, rungs) for (code, detail), rungs in rungs_by_reason.items())
    times = [reason.next_try for _, reason in reason_by_rung if reason.next_try is not None]
    return Reason(code, details, min(times, default=None))


def _detail(pool: Pool, code: str, detail: str, rungs: Sequence[Offer]) -> str:
    """Return the text of one reason with the rungs to which it applies."""
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


def _quota_key(rung: Offer, quota: str) -> str:
    """Return the key of a used-up quota: GPUs of one type and market in a region, or all GPUs."""
    return (
        _ALL_REGIONS if _ALL_REGIONS in quota.replace("_", "-").upper() else f"{rung.region} {rung.gpu} {rung.market}"
    )


def _breaker_is_open(rung: Offer, memory: Memory) -> bool:
    """Return True if Google preempted so many machines of this type and region that no spot machine is requested."""
    times = memory.preemptions.get(spot_place(rung.region, rung.machine_type), [])
    return any(b - a <= _BREAKER_WITHIN_SEC for a, b in zip(times, times[_BREAKER_COUNT - 1 :], strict=False))


def place(rung: Offer, zone: str = "") -> str:
    """Return the key of a place that can run out of capacity: one zone, machine type and market.

    With `zone`, return the place of the same machine in that zone.
    """
    return f"{zone or rung.zone} {_machine(rung)}"


def refusal_key(pool: str, rung: Offer) -> str:
    """Return the key of a refusal by the supplier: a machine type and market of a pool in a region."""
    return f"{pool} {rung.region} {_machine(rung)}"


def _machine(rung: Offer) -> str:
    """Return the machine type and market. N1 machines of one type have different GPUs, so their GPU is added."""
    attached = f" {rung.gpu}" if rung.machine_type.startswith("n1-") else ""
    return f"{rung.machine_type} {rung.market}{attached}"


def spot_place(region: str, machine_type: str) -> str:
    """Return the key by which the breaker counts the preemptions of spot machines."""
    return f"{region} {machine_type}"
