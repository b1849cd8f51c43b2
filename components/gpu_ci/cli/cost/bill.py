"""Gives the rows of a bill to machines. Each row is of one machine or is shared, so that the sums are the bill's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from gpu_ci.cli.cost.inputs import BillRow
from gpu_ci.machine_records import MachineRecord

_HOUR_SEC = 3600
_UNKNOWN_MACHINES = "machines without a record"


@dataclass
class Bill:
    """A bill by machine. Amounts are in USD."""

    usd: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The cost of each machine with its disk after discounts, by the key of its record."""
    list_usd: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The cost of each machine before credits and without its disk, which the catalog estimates."""
    shared: dict[tuple[date, str], float] = field(default_factory=lambda: defaultdict(float))
    """The cost of a day that belongs to no machine of the records, after discounts, by service."""
    promotions: dict[date, float] = field(default_factory=lambda: defaultdict(float))
    """The promotions of each day: 0 or less."""


def divide(rows: Sequence[BillRow], records: Sequence[MachineRecord]) -> Bill:
    """Return the bill of the machines of these records."""
    bill, by_id = Bill(), {each.id: each.key for each in records if each.id}
    disks = _owners(rows, records)
    for row in rows:
        bill.promotions[row.day] += row.promotions
        key = by_id.get(row.instance_id or "") or disks.get(row.disk_id or "")
        if key:
            bill.usd[key] += row.usd
            if row.instance_id:
                bill.list_usd[key] += row.cost
        else:
            bill.shared[row.day, _UNKNOWN_MACHINES if row.instance_id else row.service] += row.usd
    return bill


def _owners(rows: Iterable[BillRow], records: Iterable[MachineRecord]) -> dict[str, str]:
    """Return the key of the machine of each boot disk, by the id of the disk.

    A disk has the name of its machine, but a later machine may have the same name. The times of a bill are whole hours.
    So of the machines of this name that were there at the same time, the owner is the one with the nearest times.
    """
    named = defaultdict[str, list[MachineRecord]](list)
    for record in records:
        named[record.machine].append(record)
    times: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        if row.disk_id and row.disk_name in named:
            _, begin, end = times.get(row.disk_id, ("", row.begin_sec, row.end_sec))
            times[row.disk_id] = (row.disk_name or "", min(begin, row.begin_sec), max(end, row.end_sec))
    found = {}
    for disk, (name, begin, end) in times.items():
        near = []
        for record in named[name]:
            first, last = _hours(record)
            if first < end and begin < last:
                near.append((abs(first - begin) + abs(last - end), record.key))
        if near:
            found[disk] = min(near)[1]
    return found


def _hours(record: MachineRecord) -> tuple[int, int]:
    """Return the beginning of the first hour and the end of the last hour of a machine, in seconds since 1970."""
    first, last = record.requested.timestamp(), record.gone.timestamp()
    return math.floor(first / _HOUR_SEC) * _HOUR_SEC, math.ceil(last / _HOUR_SEC) * _HOUR_SEC
