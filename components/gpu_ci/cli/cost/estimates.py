"""What the same jobs would have cost otherwise, and what the whole month will cost."""

from __future__ import annotations

import calendar
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import pairwise
from typing import NamedTuple

import gpu_catalog

from gpu_ci.cli.cost.window import Window, midnight
from gpu_ci.machine_records import MachineRecord

# github/docs@0460e40: content/billing/reference/actions-runner-pricing.md (price, rounding) and
# content/actions/reference/runners/larger-runners.md (the GPU).
_GITHUB_RUNNER, _GITHUB_USD_PER_MINUTE = "linux_4_core_gpu (1 x T4)", 0.052
_SHARE = 0.95
_ERRORS = ((21, 0.04), (14, 0.09), (7, 0.17))
"""The error of the forecast after a number of days, the largest of six simulated months."""
_WEEKDAY_WEEKS = 4


class Baseline(NamedTuple):
    """Another way to run the jobs. A saving is a comparison with one of these, and named after it."""

    name: str
    usd: float | None
    """What it would have cost; None if a price is not published."""

    def saving(self, usd: float) -> float | None:
        """Return what a cost saves, as a part of the cost of this baseline. It is negative if it costs more."""
        return 1 - usd / self.usd if self.usd else None


def baselines(records: Sequence[MachineRecord], window: Window) -> list[Baseline]:
    """Return the baselines for the jobs of these records."""
    pools = defaultdict[str, list[MachineRecord]](list)
    for each in records:
        if each.job:
            pools[each.pool].append(each)
    if not pools:
        return []
    jobs = [(each, *_jobs_at_once(each, window)) for each in pools.values()]
    enough, most = [(each, count) for each, count, _ in jobs], [(each, count) for each, _, count in jobs]
    minutes = sum(math.ceil(each.job_sec / 60) for pool in pools.values() for each in pool if not each.is_lost)
    return [
        _always_on(f"always-on standard VMs for {_SHARE:.0%} of the time", "standard", enough, window),
        _always_on("always-on standard VMs for the most jobs at once", "standard", most, window),
        _always_on(f"always-on spot VMs for {_SHARE:.0%} of the time", "spot", enough, window),
        Baseline(
            f"GitHub's runner {_GITHUB_RUNNER}, {_GITHUB_USD_PER_MINUTE} USD a minute, each job rounded up",
            minutes * _GITHUB_USD_PER_MINUTE,
        ),
    ]


def _always_on(name: str, market: str, pools: Iterable[tuple[list[MachineRecord], int]], window: Window) -> Baseline:
    """Return the cost of machines that never stop: in each pool, of its most used machine type and region."""
    costs, machines = list[float | None](), Counter[str]()
    for records, count in pools:
        on_sec = defaultdict[tuple[str, str, str], float](float)
        for each in records:
            on_sec[each.machine_type, each.gpu, gpu_catalog.region_of(each.zone)] += each.on_sec
        machine_type, gpu, region = max(on_sec, key=lambda each: on_sec[each])
        machine = _machine(machine_type, gpu)
        price = gpu_catalog.price(machine, region, market) if machine else None
        machines[f"{machine.key.partition('/')[2] if machine else machine_type} in {region}"] += count
        costs.append(price.usd_per_hour * 24 * window.days * count if price else None)
    names = ", ".join(f"{count} x {each}" for each, count in sorted(machines.items()))
    return Baseline(f"{name} ({names})", None if None in costs else sum(each or 0.0 for each in costs))


def _machine(machine_type: str, gpu: str) -> gpu_catalog.Machine | None:
    """Return a machine of the catalog. An N1 machine has one GPU: a record does not say how many."""
    for key in (machine_type, f"{machine_type}+{gpu}x1"):
        with suppress(LookupError):
            return gpu_catalog.machine(key)
    return None


def _jobs_at_once(records: Iterable[MachineRecord], window: Window) -> tuple[int, int]:
    """Return how many jobs ran at once for 95 % of the time, and at most. Both are at least 1."""
    begin, end = midnight(window.first), midnight(window.end)
    changes = [(begin, 0), (end, 0)]
    for each in records:
        if each.job:
            started, completed = max(each.job.started, begin), min(each.job.completed or each.gone, each.gone, end)
            if started < completed:
                changes += [(started, 1), (completed, -1)]
    changes.sort()
    seconds, running = defaultdict[int, float](float), 0
    for (time, change), (until, _) in pairwise(changes):
        running += change
        seconds[running] += (until - time).total_seconds()
    least = _SHARE * sum(seconds.values())
    enough = next(count for count in sorted(seconds) if sum(sec for at, sec in seconds.items() if at <= count) >= least)
    return max(enough, 1), max(*seconds, 1)


class Forecast(NamedTuple):
    """The cost of the current month."""

    month: str
    """The month, such as 2026-10."""
    spent_usd: float
    """The cost of the days before today."""
    usd: float
    """The cost of the whole month."""
    error: float | None
    """The part by which the cost may differ; None in the first week, when the forecast is uncertain."""


def forecast(usd_by_day: Mapping[date, float], today: date) -> Forecast | None:
    """Return the forecast for the month of a day; None without any cost to compute it from.

    After the first week, each further day costs the mean of the whole weeks of the month. In the first week, it costs
    the mean of its weekday in the four weeks before, but not before the first day with a cost.
    """
    elapsed, days = today.day - 1, calendar.monthrange(today.year, today.month)[1]
    oldest = (today - min(usd_by_day, default=today)).days

    def usd(ages: Iterable[int]) -> float:
        """Return the cost of the days that are so many days before today."""
        return sum(usd_by_day.get(today - timedelta(days=age), 0.0) for age in ages)

    spent, rest = usd(range(1, today.day)), 0.0
    if elapsed >= 7:
        weeks = elapsed // 7 * 7
        rest = (days - elapsed) * usd(range(1, weeks + 1)) / weeks
    else:
        for at in range(days - elapsed):
            ages = [age for week in range(_WEEKDAY_WEEKS) if (age := 7 * week + 7 - at % 7) <= oldest]
            rest += usd(ages) / len(ages) if ages else 0.0
    if not spent and not rest:
        return None
    error = next((error for least, error in _ERRORS if elapsed >= least), None)
    return Forecast(f"{today:%Y-%m}", spent, spent + rest, error)
