"""`gpu-ci cost query`: prints the query whose result `gpu-ci cost report --bill` reads."""

from __future__ import annotations

import re
from importlib import resources

import click

from gpu_ci.cli import options
from gpu_ci.cli.cost.mistakes import Mistakes
from gpu_ci.cli.cost.window import since
from gpu_ci.cli.lazy import Lazy
from gpu_ci.cli.output import print_json

_TABLE = re.compile(r"[a-z][a-z0-9.:-]{4,70}\.[A-Za-z0-9_]{1,1024}\.[A-Za-z0-9_-]{1,1024}")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{4,70}")


@click.group("query", cls=Lazy, modules={"google": ("gpu_ci.cli.cost.query:google", "Print BigQuery SQL.")})
def command() -> None:
    """Print the query that reads a cloud's bill for `gpu-ci cost report --bill`.

    \b
    Examples:
      gpu-ci cost query google --table acme-billing.export.gcp_billing_export_resource_v1_01A2B3
    """


@click.command("google")
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
    where = f"usage_start_time >= TIMESTAMP('{since} 00:00:00+00')" + (
        f" AND project.id = '{project}'" if project else ""
    )
    return text.replace("{table}", table).replace("{where}", where)
