"""Computes a report: what was paid for the jobs of each team, repository, workflow or pool, and what for nothing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date
from typing import TYPE_CHECKING

from gpu_catalog import region_of

from gpu_ci.cli import clock
from gpu_ci.cli.cost.baselines import Baseline, baselines
from gpu_ci.cli.cost.bill import Bill
from gpu_ci.cli.cost.forecast import Forecast, forecast
from gpu_ci.cli.cost.window import Period, Window, begin_of
from gpu_ci.machine_records import GpuUse, JobOfMachine, MachineRecord, Parts

if TYPE_CHECKING:
    from gpu_ci.stack.teams import Team

BY = ("team", "repository", "workflow", "pool")
NO_JOB, NO_TEAM, NO_NAME = "(no job)", "(no team)", "(unknown)"
_MOST_PERIODS = 12
_DIFFERENCE = 0.05
"""The largest difference between estimate and bill, as a part of the estimate, that is not worth a warning."""


@dataclass(frozen=True)
class Charged:
    """A machine with its cost. It counts on the day on which it was deleted."""

    record: MachineRecord
    day: date
    parts: Parts

    @property
    def usd(self) -> float:
        return sum(self.parts)


@dataclass
class Row:
    """What the jobs of one team, repository, workflow or pool waited for and cost."""

    jobs: int = 0
    waits_sec: list[float] = field(default_factory=list)
    parts: list[float] = field(default_factory=lambda: [0.0] * len(Parts._fields))
    job_sec: float = 0.0
    measured_sec: float = 0.0
    """The part of `job_sec` in which the use of the GPUs is known."""
    busy_sec: float = 0.0
    """The use of the GPUs x the time of the job."""
    usd_before: float = 0.0

    @property
    def usd(self) -> float:
        return sum(self.parts)

    @property
    def gpu_use(self) -> float | None:
        """The mean use of the GPUs, 0 to 1, weighted by time; None if it is not known."""
        return self.busy_sec / self.measured_sec if self.measured_sec else None

    def wait_sec(self, share: float) -> float | None:
        """Return the longest wait of this share of the jobs with the shortest waits; None without a job."""
        ordered = sorted(self.waits_sec)
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None

    def add_job(self, job: JobOfMachine, gpu_use: GpuUse | None, job_sec: float) -> None:
        self.jobs += 1
        self.waits_sec.append(max((job.started - job.created).total_seconds(), 0.0))
        self.job_sec += job_sec
        if gpu_use and gpu_use.util_avg is not None:
            self.measured_sec += job_sec
            self.busy_sec += gpu_use.util_avg * job_sec

    def add_parts(self, parts: Iterable[float]) -> None:
        self.parts = [a + b for a, b in zip(self.parts, parts, strict=True)]


Names = tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A report on whole days in UTC. Amounts are in USD."""

    window: Window
    before: Window
    by: Names
    rows: Mapping[Names, Row]
    """The rows, the most expensive first."""
    total: Row
    """All machines of the window."""
    shared: Mapping[str, float] | None
    """What belongs to no machine, by service; None without a bill."""
    promotions: float
    """What promotions paid: 0 or less."""
    period: Period
    by_period: Mapping[date, float]
    """The cost of machines in each of the last weeks or months, by its first day."""
    baselines: Sequence[Baseline]
    forecast: Forecast | None
    budgets: Mapping[str, tuple[float, float | None, str]]
    """What each team has spent in this month, its budget, and what follows when it is spent."""
    warnings: Sequence[str]

    @property
    def usd(self) -> float:
        """The cost before promotions."""
        return self.total.usd + sum((self.shared or {}).values())


def compute(
    records: Sequence[MachineRecord], windows: tuple[Window, Window], by: Names, period: Period,
    teams: Mapping[str, Team], bill: Bill | None,
) -> Report:  # fmt: skip
    """Return the report on the first of two windows, compared with the second."""
    window, before = windows
    team_of = {each.lower(): name for name, team in teams.items() for each in team.repositories}
    every = [_charged(record, bill) for record in records]
    inside = [each for each in every if window.has(each.day)]
    machines = [each.record for each in inside]
    rows, rows_before = _rows(inside, by, team_of), _rows((each for each in every if before.has(each.day)), by, team_of)
    total = _total(rows.values(), sum(row.usd for row in rows_before.values()))
    for names, row in rows_before.items():
        rows.setdefault(names, Row()).usd_before = row.usd
    budgets = _budgets(records, teams, team_of)
    return Report(
        window=window,
        before=before,
        by=by,
        rows=dict(sorted(rows.items(), key=lambda each: (-each[1].usd, each[0]))),
        total=total,
        shared=_shared(bill, window) if bill else None,
        promotions=sum(usd for day, usd in bill.promotions.items() if window.has(day)) if bill else 0.0,
        period=period,
        by_period=_by_period(every, period),
        # The cost of jobs on clusters has no other time of their nodes, so it compares with nothing.
        baselines=() if any(map(_is_part_of_node, machines)) else baselines(machines, window),
        forecast=forecast(_by_day(every, bill), clock.today()),
        budgets=budgets,
        warnings=[*_budget_warnings(budgets), *_warnings(inside, bill), *_late_begin(every, before)],
    )


def _is_part_of_node(record: MachineRecord) -> bool:
    """Return True for a job on a cluster, whose record has no boot and idle time of the node."""
    return "node" in record.incomplete


def _late_begin(charged: Sequence[Charged], before: Window) -> Iterable[str]:
    """Yield a warning if the records begin after the time with which the report is compared."""
    first = min((each.day for each in charged), default=before.first)
    if first >= before.end:
        yield f"the first record is of {first}: nothing is compared, and earlier machines may be missing"


def _charged(record: MachineRecord, bill: Bill | None) -> Charged:
    """Return a machine with its bill, or with its price in the catalog. An unknown price counts as 0."""
    usd = bill.usd.get(record.key) if bill else None
    return Charged(
        record, record.gone.astimezone(UTC).date(), record.parts((record.usd or 0.0) if usd is None else usd)
    )


def _rows(charged: Iterable[Charged], by: Names, team_of: Mapping[str, str]) -> dict[Names, Row]:
    """Return the rows. Idle time belongs to the pool, and not to the job that came last."""
    rows = defaultdict[Names, Row](Row)
    for each in charged:
        record, job = each.record, each.record.job
        names = dict.fromkeys(BY, NO_JOB) | {"pool": record.pool}
        idle = Parts(0.0, 0.0, 0.0, each.parts.idle)
        if job:
            team = team_of.get(job.repository.rpartition("/")[2].lower(), NO_TEAM)
            of_job = names | {"team": team, "repository": job.repository, "workflow": job.workflow or NO_NAME}
            row = rows[tuple(of_job[name] for name in by)]
            row.add_job(job, record.gpu_use, record.job_sec)
            row.add_parts(each.parts._replace(idle=0.0))
        if not job or each.parts.idle:
            rows[tuple(names[name] for name in by)].add_parts(idle)
    return dict(rows)


def _total(rows: Iterable[Row], usd_before: float) -> Row:
    total = Row(usd_before=usd_before)
    for row in rows:
        total.jobs += row.jobs
        total.waits_sec += row.waits_sec
        total.job_sec += row.job_sec
        total.measured_sec += row.measured_sec
        total.busy_sec += row.busy_sec
        total.add_parts(row.parts)
    return total


def _shared(bill: Bill, window: Window) -> dict[str, float]:
    found = defaultdict[str, float](float)
    for (day, service), usd in bill.shared.items():
        if window.has(day):
            found[service] += usd
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _by_period(charged: Iterable[Charged], period: Period) -> dict[date, float]:
    found = defaultdict[date, float](float)
    for each in charged:
        found[begin_of(period, each.day)] += each.usd
    return dict(sorted(found.items())[-_MOST_PERIODS:])


def _by_day(charged: Iterable[Charged], bill: Bill | None) -> dict[date, float]:
    found = defaultdict[date, float](float)
    for each in charged:
        found[each.day] += each.usd
    for (day, _), usd in bill.shared.items() if bill else ():
        found[day] += usd
    return found


def _budgets(
    records: Iterable[MachineRecord], teams: Mapping[str, Team], team_of: Mapping[str, str]
) -> dict[str, tuple[float, float | None, str]]:
    """Return what the teams have spent as the runner manager counts it: its machines, at the prices of the catalog."""
    first = clock.today().replace(day=1)
    every = (_charged(record, None) for record in records if not _is_part_of_node(record))
    month = (each for each in every if first <= each.day <= clock.today())
    spent = {names[0]: row.usd for names, row in _rows(month, ("team",), team_of).items()}
    return {name: (spent.get(name, 0.0), team.usd_per_month, team.on_budget) for name, team in teams.items()}


def _budget_warnings(budgets: Mapping[str, tuple[float, float | None, str]]) -> Iterable[str]:
    for team, (spent, budget, _) in budgets.items():
        if budget is not None and spent > budget:
            yield f"{team} has spent {spent:,.2f} USD of {budget:,.2f} USD in this month"


def _warnings(charged: Sequence[Charged], bill: Bill | None) -> Iterable[str]:
    reasons = Counter(reason for each in charged for reason in each.record.incomplete)
    if count := sum(bool(each.record.incomplete) for each in charged):
        listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reasons.items()))
        yield f"{count:,} of {len(charged):,} records are incomplete: {listed}"
    if not charged:
        yield "no machine was deleted in these days"
    if nodes := sum(_is_part_of_node(each.record) for each in charged):
        yield f"{nodes:,} jobs ran on clusters: without boot and idle time of nodes, so no baseline is compared"
    without = [each for each in charged if not (bill and each.record.key in bill.usd)]
    if unpriced := sum(each.record.usd is None for each in without):
        yield f"{unpriced:,} machines have no published price and count as 0 USD"
    if bill:
        if of_google := [each for each in without if not _is_part_of_node(each.record)]:
            usd = sum(each.usd for each in of_google)
            yield f"{len(of_google):,} machines are not on the bill, and count with the catalog's {usd:,.2f} USD"
        yield from _differences(charged, bill)


def _differences(charged: Iterable[Charged], bill: Bill) -> Iterable[str]:
    """Yield a warning for each region and market whose bill is not what the catalog estimates."""
    sums = defaultdict[tuple[str, str], list[float]](lambda: [0.0, 0.0])
    for each in charged:
        record = each.record
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
