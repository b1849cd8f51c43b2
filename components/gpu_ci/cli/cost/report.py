"""Computes a report: what was paid for the jobs of each team, repository, workflow or pool, and what for nothing.

A report is the document that `gpu-ci cost report --json` prints. Times are seconds, and shares are 0 to 1.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gpu_catalog import region_of
from pydantic.alias_generators import to_camel

from gpu_ci.cli import clock
from gpu_ci.cli.cost.bill import Bill
from gpu_ci.cli.cost.estimates import baselines, forecast
from gpu_ci.cli.cost.window import Period, Window, begin_of
from gpu_ci.machine_records import MachineRecord, Parts

if TYPE_CHECKING:
    from gpu_ci.stack.teams import Team

BY = ("team", "repository", "workflow", "pool")
NO_JOB, NO_TEAM, NO_NAME = "(no job)", "(no team)", "(unknown)"
_MOST_PERIODS = 12
_QUIET_DAYS = 2
"""The days without a machine, such as a weekend, before which no record is taken to be missing."""
_DIFFERENCE = 0.05
"""The largest difference between estimate and bill, as a part of the estimate, that is not worth a warning."""

Report = dict[str, Any]
Names = tuple[str, ...]
Key = TypeVar("Key", date, str)


class Charged(NamedTuple):
    """A machine with its cost. It counts on the day on which it was deleted, in UTC."""

    record: MachineRecord
    day: date
    parts: Parts

    @property
    def usd(self) -> float:
        return sum(self.parts)

    @property
    def is_part_of_node(self) -> bool:
        """True for a job on a cluster, whose record has no boot and idle time of the node."""
        return "node" in self.record.incomplete


@dataclass
class Row:
    """What the jobs of one team, repository, workflow or pool waited for and cost."""

    with_job: list[MachineRecord] = field(default_factory=list)
    parts: list[Parts] = field(default_factory=list)
    usd_before: float = 0.0

    @property
    def usd(self) -> float:
        return math.fsum(map(sum, self.parts))

    def numbers(self) -> Report:
        jobs = [each.job for each in self.with_job if each.job]
        waits = sorted(max((job.started - job.created).total_seconds(), 0.0) for job in jobs)
        use = [(each.job_sec, each.gpu_use.util_avg if each.gpu_use else None) for each in self.with_job]
        job_sec, measured_sec = sum(sec for sec, _ in use), sum(sec for sec, util in use if util is not None)
        return {
            "jobs": len(jobs),
            "waitSec": {name: _longest(waits, share) for name, share in (("median", 0.5), ("p95", 0.95))},
            "gpuUse": sum(sec * (util or 0.0) for sec, util in use) / measured_sec if measured_sec else None,
            "gpuUseKnown": measured_sec / job_sec if job_sec else None,
            **{f"{name}Usd": math.fsum(each) for name, *each in zip(Parts._fields, *self.parts, strict=True)},
            "usd": self.usd,
            "usdBefore": self.usd_before,
        }


def _longest(waits: Sequence[float], share: float) -> float | None:
    """Return the longest wait of this share of the jobs with the shortest waits; None without a job."""
    return waits[math.ceil(share * len(waits)) - 1] if waits else None


def compute(
    records: Sequence[MachineRecord], windows: tuple[Window, Window], by: Names, period: Period,
    teams: Mapping[str, Team], bill: Bill | None,
) -> Report:  # fmt: skip
    """Return the report on the first of two windows, compared with the second."""
    window, before = windows
    team_of = {each.lower(): name for name, team in teams.items() for each in team.repositories}
    charged = [_charged(record, bill) for record in records]
    every = [each for each in charged if each.day <= clock.today()]
    inside, earlier = ([each for each in every if days.has(each.day)] for days in windows)
    rows, total = _rows(inside, by, team_of), _rows(inside, (), team_of)[()]
    for names, row in _rows(earlier, by, team_of).items():
        rows[names].usd_before = row.usd
        total.usd_before += row.usd
    by_day = _sums((each.day, each.usd) for each in every)
    by_period = _sums((begin_of(period, day), usd) for day, usd in sorted(by_day.items()))
    shared_by_day = bill.shared if bill else {}
    shared = _sums((service, usd) for (day, service), usd in shared_by_day.items() if window.has(day))
    paid = total.usd + sum(shared.values())
    # The cost of jobs on clusters has no other time of their nodes, so it compares with nothing.
    compared = (
        [] if any(each.is_part_of_node for each in inside) else baselines([each.record for each in inside], window)
    )
    month = forecast(_sums([*by_day.items(), *((day, usd) for (day, _), usd in shared_by_day.items())]), clock.today())
    budgets = _budgets(every, teams, team_of)
    first, last = (of((each.day for each in every), default=before.first) for of in (min, max))
    compared_days = (
        "nothing" if first >= before.end else f"{before.first} to {before.end}, as far as there are records,"
    )
    late = f"the first record is of {first}: {compared_days} is compared, and earlier machines may be missing"
    to_come = f"{_count(len(charged) - len(every), 'record')} of days to come: not counted; compare the manager's clock"
    empty = f"no machine was deleted in these days{f'; the records are of {first} to {last}' if every else ''}"
    return {
        "by": by,
        "period": period,
        "from": str(window.first),
        "until": str(window.end),
        "before": {"from": str(before.first), "until": str(before.end)},
        "rows": [
            dict(zip(by, names, strict=True)) | row.numbers()
            for names, row in sorted(rows.items(), key=lambda each: (-each[1].usd, each[0]))
        ],
        "total": total.numbers(),
        "sharedUsd": dict(sorted(shared.items(), key=lambda each: -each[1])) if bill else None,
        "promotionsUsd": sum(usd for day, usd in bill.promotions.items() if window.has(day)) if bill else 0.0,
        "usd": paid,
        f"usdBy{period.capitalize()}": {str(begin): usd for begin, usd in [*by_period.items()][-_MOST_PERIODS:]},
        "baselines": [each._asdict() | {"saving": each.saving(paid)} for each in compared],
        "forecast": month and {to_camel(name): value for name, value in month._asdict().items()},
        "budgets": budgets,
        "warnings": [
            *_warnings(budgets, inside, bill),
            *([] if inside else [empty]),
            *([late] if (first - before.first).days > _QUIET_DAYS else []),
            *([to_come] if len(charged) > len(every) else []),
        ],
    }


def _sums(amounts: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    found = defaultdict[Key, float](float)
    for key, usd in amounts:
        found[key] += usd
    return dict(found)


def _charged(record: MachineRecord, bill: Bill | None) -> Charged:
    """Return a machine with its bill, or with its price in the catalog. An unknown price counts as 0."""
    usd = bill.usd.get(record.key) if bill else None
    parts = record.parts((record.usd or 0.0) if usd is None else usd)
    return Charged(record, record.gone.astimezone(UTC).date(), parts)


def _rows(charged: Iterable[Charged], by: Names, team_of: Mapping[str, str]) -> defaultdict[Names, Row]:
    """Return the rows. Idle time belongs to the pool, and not to the job that came last."""
    rows = defaultdict[Names, Row](Row)
    for record, _, parts in charged:
        names = dict.fromkeys(BY, NO_JOB) | {"pool": record.pool}
        if job := record.job:
            of_job = names | {
                "team": _team(record, team_of),
                "repository": job.repository,
                "workflow": job.workflow or NO_NAME,
            }
            row = rows[tuple(of_job[name] for name in by)]
            row.with_job.append(record)
            row.parts.append(parts._replace(idle=0.0))
        if not job or parts.idle:
            rows[tuple(names[name] for name in by)].parts.append(Parts(0.0, 0.0, 0.0, parts.idle))
    return rows


def _team(record: MachineRecord, team_of: Mapping[str, str]) -> str:
    return team_of.get(record.job.repository.rpartition("/")[2].lower(), NO_TEAM) if record.job else NO_JOB


def _budgets(charged: Iterable[Charged], teams: Mapping[str, Team], team_of: Mapping[str, str]) -> dict[str, Report]:
    """Return what the teams have spent as the runner manager counts it: its machines, at the prices of the catalog.

    A machine counts with its whole time, also that on standby.
    """
    first, today = clock.today().replace(day=1), clock.today()
    managed = [each for each in charged if each.record.supplier not in ("kubernetes", "google-cloud-build")]
    month = [each.record for each in managed if first <= each.day <= today]
    spent = _sums((_team(each, team_of), each.usd or 0.0) for each in month)
    return {
        name: {"spentUsd": spent.get(name, 0.0), "usdPerMonth": team.usd_per_month, "onBudget": team.on_budget}
        for name, team in teams.items()
    }


def _warnings(budgets: Mapping[str, Report], charged: Sequence[Charged], bill: Bill | None) -> Iterable[str]:
    for team, each in budgets.items():
        spent, budget = each["spentUsd"], each["usdPerMonth"]
        if budget is not None and spent >= budget:
            yield f"{team} has spent {spent:,.2f} USD of {budget:,.2f} USD in this month"
    reasons = Counter(reason for each in charged for reason in each.record.incomplete)
    if count := sum(bool(each.record.incomplete) for each in charged):
        listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reasons.items()))
        yield f"{count:,} of {_count(len(charged), 'record')} incomplete: {listed}"
    if nodes := sum(each.is_part_of_node for each in charged):
        yield f"{_count(nodes, 'job')} on clusters, without boot and idle time of nodes: no baseline is compared"
    without = [each for each in charged if not (bill and each.record.key in bill.usd)]
    if unpriced := sum(each.record.usd is None for each in without):
        yield f"{_count(unpriced, 'machine')} without a published price: counted as 0 USD"
    if bill:
        if of_google := [each for each in without if not each.is_part_of_node]:
            usd = sum(each.usd for each in of_google)
            yield f"{_count(len(of_google), 'machine')} not on the bill: counted with the catalog's {usd:,.2f} USD"
        yield from _differences(charged, bill)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _differences(charged: Iterable[Charged], bill: Bill) -> Iterable[str]:
    """Yield a warning for each region and market whose bill is not what the catalog estimates."""
    sums = defaultdict[tuple[str, str], list[float]](lambda: [0.0, 0.0])
    for record, _, _ in charged:
        if record.usd is not None and record.key in bill.list_usd:
            pair = sums[region_of(record.zone), record.market]
            pair[0] += record.usd
            pair[1] += bill.list_usd[record.key]
    for (region, market), (estimate, billed) in sorted(sums.items()):
        if estimate and abs(billed / estimate - 1) > _DIFFERENCE:
            yield (
                f"{market} machines in {region}: the bill has {billed:,.2f} USD and the catalog {estimate:,.2f} USD "
                f"({billed / estimate - 1:+.1%}); compare usdPerHour of the records with the price list"
            )
