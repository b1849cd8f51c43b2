"""What the same jobs would have cost otherwise. A saving is a comparison with one of these, and named after it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import gpu_catalog
from gpu_catalog import Machine, region_of

from gpu_ci.cli.cost.window import Window
from gpu_ci.machine_records import MachineRecord

# github/docs@0460e40: content/billing/reference/actions-runner-pricing.md (price, rounding) and
# content/actions/reference/runners/larger-runners.md (the GPU).
_GITHUB_RUNNER, _GITHUB_USD_PER_MINUTE = "linux_4_core_gpu (1 x T4)", 0.052
_SHARE = 0.95


class Baseline(NamedTuple):
    """Another way to run the jobs."""

    name: str
    usd: float | None
    """What it would have cost; None if a price is not published."""

    def saving(self, usd: float) -> float | None:
        """Return what a cost saves, as a part of the cost of this baseline. It is negative if it costs more."""
        return 1 - usd / self.usd if self.usd else None


def baselines(records: Sequence[MachineRecord], window: Window) -> list[Baseline]:
    """Return the baselines for the jobs of these records."""
    with_job = [each for each in records if each.job]
    if not with_job:
        return []
    pools = defaultdict[str, list[MachineRecord]](list)
    for each in with_job:
        pools[each.pool].append(each)
    at_once = {pool: _at_once(each, window) for pool, each in pools.items()}
    enough = {pool: most for pool, (most, _) in at_once.items()}
    most = {pool: most for pool, (_, most) in at_once.items()}
    minutes = sum(math.ceil(each.job_sec / 60) for each in with_job if not each.is_lost)
    return [
        _always_on(f"always-on standard VMs for {_SHARE:.0%} of the time", "standard", enough, pools, window),
        _always_on("always-on standard VMs for the most jobs at once", "standard", most, pools, window),
        _always_on(f"always-on spot VMs for {_SHARE:.0%} of the time", "spot", enough, pools, window),
        Baseline(
            f"GitHub's runner {_GITHUB_RUNNER}, {_GITHUB_USD_PER_MINUTE} USD a minute, each job rounded up",
            minutes * _GITHUB_USD_PER_MINUTE,
        ),
    ]


def _always_on(
    name: str, market: str, counts: dict[str, int], pools: dict[str, list[MachineRecord]], window: Window
) -> Baseline:
    """Return the cost of machines that never stop: in each pool, of its most used machine type and region."""
    total: float | None = 0.0
    machines = Counter[str]()
    for pool, count in counts.items():
        on_sec = defaultdict[tuple[str, str, str], float](float)
        for each in pools[pool]:
            on_sec[each.machine_type, each.gpu, region_of(each.zone)] += each.on_sec
        machine_type, gpu, region = max(on_sec, key=lambda each: on_sec[each])
        machine = _machine(machine_type, gpu)
        price = gpu_catalog.price(machine, region, market) if machine else None
        machines[f"{machine.key.partition('/')[2] if machine else machine_type} in {region}"] += count
        total = None if total is None or price is None else total + price.usd_per_hour * 24 * window.days * count
    names = ", ".join(f"{count} x {each}" for each, count in sorted(machines.items()))
    return Baseline(f"{name} ({names})", total)


def _machine(machine_type: str, gpu: str) -> Machine | None:
    """Return a machine of the catalog. An N1 machine has one GPU: a record does not say how many."""
    try:
        return gpu_catalog.machine(machine_type)
    except LookupError:
        pass
    try:
        return gpu_catalog.attached(machine_type, gpu)
    except LookupError:
        return None


def _at_once(records: Iterable[MachineRecord], window: Window) -> tuple[int, int]:
    """Return how many jobs ran at once for 95 % of the time, and at most. Both are at least 1."""
    begin, end = (each.timestamp() for each in window.times)
    changes: list[tuple[float, int]] = [(begin, 0), (end, 0)]
    for each in records:
        if each.job:
            started = max(each.job.started.timestamp(), begin)
            completed = min((each.job.completed or each.gone).timestamp(), each.gone.timestamp(), end)
            if started < completed:
                changes += [(started, 1), (completed, -1)]
    changes.sort()
    seconds, running = defaultdict[int, float](float), 0
    for (time, change), (until, _) in pairwise(changes):
        running += change
        seconds[running] += until - time
    total, so_far = sum(seconds.values()), 0.0
    for count in sorted(seconds):
        so_far += seconds[count]
        if so_far >= _SHARE * total:
            return max(count, 1), max(*seconds, 1)
    return 1, 1
