"""Google's bill: the query that reads it, and its division by machine. Each row is of one machine or is shared."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import resources

import click

from gpu_ci.cli import options
from gpu_ci.cli.cost.inputs import BillRow
from gpu_ci.cli.cost.window import since
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import print_json
from gpu_ci.machine_records import MachineRecord

_TABLE = re.compile(r"[a-z][a-z0-9.:-]{4,70}\.[A-Za-z0-9_]{1,1024}\.[A-Za-z0-9_-]{1,1024}")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{4,70}")
_HOUR_SEC = 3600
_UNKNOWN_MACHINES = "machines without a record"


@click.group("query")
def query() -> None:
    """Print the query that reads a cloud's bill for `gpu-ci cost report --bill`.

    \b
    Examples:
      gpu-ci cost query google --table acme-billing.export.gcp_billing_export_resource_v1_01A2B3
    """


@query.command("google", short_help="Print BigQuery SQL.")
@click.option("--table", required=True, metavar="PROJECT.DATASET.TABLE", help="The table of the detailed export.")
@click.option("--project", metavar="ID", help="Read the cost of this project only, not of the whole billing account.")
@click.option("--since", "begin", default="10w", show_default=True, help="Read usage from then on: 10w, 60d or a date.")
@options.as_json
def google(table: str, project: str | None, begin: str, as_json: bool) -> None:
    """Print the SQL for the detailed export of Google's bill to BigQuery.

    Its result has a row for each day and resource. --since must reach back to the start of the report's machines, and
    of those of the period before. This command reads no bill itself.

    \b
    Examples:
      gpu-ci cost query google --table acme-billing.export.gcp_billing_export_resource_v1_01A2B3 > bill.sql
      gpu-ci cost query google --table acme-billing.export.gcp_billing_export_resource_v1_01A2B3 --project acme-ci
    """
    mistakes, where = Mistakes(), click.get_current_context().command_path
    if not _TABLE.fullmatch(table):
        hint = "such as acme-billing.export.gcp_billing_export_resource_v1_01A2B3"
        mistakes.add(where, "--table", "is not a table", repr(table), "PROJECT.DATASET.TABLE", hint)
    if project is not None and not _PROJECT.fullmatch(project):
        mistakes.add(where, "--project", "is not the id of a project", repr(project), "an id", "such as acme-ci")
    day = since(begin, where, mistakes)
    mistakes.refuse()
    text = sql(table, str(day), project or "")
    if as_json:
        print_json({"sql": text})
    else:
        click.echo(text, nl=False)


def sql(table: str, since: str, project: str = "") -> str:
    """Return the query of a table, from a day on such as 2026-10-05, of one project or of the billing account."""
    text = resources.files(__package__ or "").joinpath("google_bill.sql").read_text(encoding="utf-8")
    of_project = f" AND project.id = '{project}'" if project else ""
    return text.replace("{table}", table).replace(
        "{where}", f"usage_start_time >= TIMESTAMP('{since} 00:00:00+00'){of_project}"
    )


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
    # A build writes the ids of its machines, so an id that a runner manager recorded is not the build's.
    of_machines = [each for each in records if each.id and each.supplier != "kubernetes"]
    of_machines.sort(key=lambda each: each.supplier != "google-cloud-build")
    bill, by_id = Bill(), {each.id: each.key for each in of_machines}
    disks = _owners(rows, records)
    for row in rows:
        bill.promotions[row.day] += row.promotions
        if key := by_id.get(row.instance_id or "") or disks.get(row.disk_id or ""):
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
    hours_of = defaultdict[str, list[tuple[int, int, str]]](list)
    for record in records:
        first, last = record.requested.timestamp() / _HOUR_SEC, record.gone.timestamp() / _HOUR_SEC
        hours = (math.floor(first) * _HOUR_SEC, math.ceil(last) * _HOUR_SEC)
        hours_of[record.machine].append((*hours, record.key))
    disks = defaultdict[tuple[str, str], list[BillRow]](list)
    for row in rows:
        if row.disk_id and row.disk_name:
            disks[row.disk_id, row.disk_name].append(row)
    found = {}
    for (disk, name), of_disk in disks.items():
        begin, end = min(row.begin_sec for row in of_disk), max(row.end_sec for row in of_disk)
        near = [
            (abs(first - begin) + abs(last - end), key)
            for first, last, key in hours_of[name]
            if first < end and begin < last
        ]
        if near:
            found[disk] = min(near)[1]
    return found
