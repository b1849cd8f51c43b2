"""Writes a bill in the schema of Google's detailed export. It knows machines, and nothing of records or reports.

The columns are those of cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/detailed-usage.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from tests.gpu_ci.cli.cost.simulated import BEGIN, DAYS, Machine

Json = dict[str, Any]
HOUR = 3600
DISK_USD_PER_HOUR = 0.0137
DEARER, DEARER_FROM_SEC, DEARER_ZONE = 1.12, 14 * 86400, "us-west1-a"
_SKUS = (("Core", 0.35), ("Ram", 0.15), ("Nvidia L4 GPU", 0.5))


@dataclass
class Bill:
    """The rows, and the sums that were billed, each row once."""

    rows: list[Json] = field(default_factory=list)
    machines: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Each machine by its id, with its disk, after discounts."""
    shared: float = 0.0
    promotions: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.machines.values()) + self.shared + self.promotions


def write(world: Sequence[Machine], dearer: float = DEARER, promotion_usd: float = 10.0) -> Bill:
    """Return the bill of these machines, with rows that came late and rows that came twice."""
    bill, left = Bill(), promotion_usd
    for machine in world:
        instance = f"zones/{machine.zone}/instances/{machine.id}"
        for begin, end in machine.on:
            for hour, sec in _hours(begin, max(end, begin + 60)):
                factor = dearer if machine.zone == DEARER_ZONE and hour >= DEARER_FROM_SEC else 1
                for sku, share in _SKUS:
                    cost = machine.usd_per_hour * factor * share * sec / HOUR
                    given = []
                    if machine.market == "standard" and sku == "Core":
                        given.append(("COMMITTED_USAGE_DISCOUNT", -0.37 * cost))
                    if left > 0 and sku.startswith("Nvidia"):
                        given.append(("PROMOTION", -min(left, cost)))
                        left += given[-1][1]
                        bill.promotions += given[-1][1]
                    discounts = sum(amount for kind, amount in given if kind != "PROMOTION")
                    bill.machines[str(machine.id)] += cost + discounts
                    bill.rows.append(_row("Compute Engine", sku, hour, cost, machine.name, instance, given))
        for hour, sec in _hours(machine.on[0][0], machine.gone):
            cost = DISK_USD_PER_HOUR * sec / HOUR
            bill.machines[str(machine.id)] += cost
            disk = f"zones/{machine.zone}/disk/{machine.id + 7}"
            bill.rows.append(_row("Compute Engine", "Balanced PD Capacity", hour, cost, machine.name, disk, []))
    for day in range(DAYS):
        for service, usd in (("Networking", 1.06), ("Cloud Run", 1.63), ("Cloud Logging", 0.31)):
            bill.shared += usd
            bill.rows.append(_row(service, "Uptime", day * 86400, usd, None, None, []))
    for kind, usd in (("tax", 3.5), ("rounding_error", 0.004), ("adjustment", -1.25)):
        bill.shared += usd
        resource = ("l4-000001", "zones/us-central1-a/instances/1") if kind == "adjustment" else (None, None)
        bill.rows.append(_row("Invoice", kind, 20 * 86400, usd, *resource, [], kind))
    noise = random.Random(2)
    for row in noise.sample(bill.rows, 40):  # late, and on the invoice of the next month
        row["export_time"], row["invoice"] = "2026-11-20 00:00:00+00:00", {"month": "202612"}
    bill.rows += [dict(row) for row in noise.sample(bill.rows, 25)]
    noise.shuffle(bill.rows)
    return bill


def _hours(begin: float, end: float) -> Iterator[tuple[int, float]]:
    """Yield each hour of a time, with the seconds in it."""
    at = begin
    while at < end:
        hour = int(at // HOUR) * HOUR
        until = min(hour + HOUR, end)
        yield hour, until - at
        at = until


def _row(
    service: str, sku: str, hour: int, cost: float, name: str | None, resource: str | None,
    given: list[tuple[str, float]], cost_type: str = "regular",
) -> Json:  # fmt: skip
    begin = BEGIN + timedelta(seconds=hour)
    return {
        "service": {"id": "6F81-5844-456A", "description": service},
        "sku": {"id": "0000-0000-0000", "description": sku},
        "usage_start_time": f"{begin:%F %T}+00:00",
        "usage_end_time": f"{begin + timedelta(seconds=HOUR):%F %T}+00:00",
        "project": {"id": "acme-ci", "number": "123456789012"},
        "labels": [{"key": "gpu-ci-repository", "value": "another"}],
        "resource": {
            "name": name,
            "global_name": resource and f"//compute.googleapis.com/projects/123456789012/{resource}",
        },
        "export_time": f"{begin + timedelta(hours=5):%F %T}+00:00",
        "cost": cost,
        "currency": "USD",
        "currency_conversion_rate": 1.0,
        "credits": [{"name": kind, "amount": amount, "type": kind} for kind, amount in given],
        "invoice": {"month": f"{begin:%Y%m}"},
        "cost_type": cost_type,
    }


_TYPES = {
    "service": "STRUCT(id VARCHAR, description VARCHAR)", "sku": "STRUCT(id VARCHAR, description VARCHAR)",
    "usage_start_time": "TIMESTAMPTZ", "usage_end_time": "TIMESTAMPTZ", "project": "STRUCT(id VARCHAR, number VARCHAR)",
    "labels": 'STRUCT("key" VARCHAR, "value" VARCHAR)[]', "resource": "STRUCT(name VARCHAR, global_name VARCHAR)",
    "export_time": "TIMESTAMPTZ", "cost": "DOUBLE", "currency": "VARCHAR", "currency_conversion_rate": "DOUBLE",
    "credits": 'STRUCT(name VARCHAR, amount DOUBLE, "type" VARCHAR)[]', "invoice": 'STRUCT("month" VARCHAR)',
    "cost_type": "VARCHAR",
}  # fmt: skip


def run(sql: str, rows: Sequence[Json], folder: Path) -> list[Json]:
    """Return the result of BigQuery SQL over a table with these rows, as `bq --format=json` prints it."""
    file = folder / "export.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    [translated] = sqlglot.transpile(sql, read="bigquery", write="duckdb")
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in _TYPES.items())
        source = f"read_json('{file}', format = 'newline_delimited', columns = {{{columns}}})"
        database.execute("ATTACH ':memory:' AS \"acme-billing\"")
        database.execute('CREATE SCHEMA "acme-billing".export')
        database.execute(f'CREATE TABLE "acme-billing".export.bill AS SELECT * FROM {source}')  # noqa: S608 - a file of this test
        cursor = database.execute(translated)
        names = [each[0] for each in cursor.description or ()]
        return [
            {name: None if value is None else str(value) for name, value in zip(names, line, strict=True)}
            for line in cursor.fetchall()
        ]
