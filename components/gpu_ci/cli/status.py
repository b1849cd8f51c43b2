"""`gpu-ci status`: prints the pools of a deployed stack, read from the output of `pulumi stack output --json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

import click
from gpu_catalog import cost, staleness
from gpu_catalog.models import Price

from gpu_ci.cli import clock, options
from gpu_ci.cli.output import InputError, first_and_count, print_json, print_table

_HEADINGS = ["pool", "kind", "machine", "GPU", "market", "max", "USD/h at max", "verdict"]
_HINT = "pulumi stack output --stack staging --json | gpu-ci status"


@click.command("status")
@click.argument("file", type=click.File(encoding="utf-8"), default="-")
@click.option("--no-notes", is_flag=True, help="Leave out the notes, which `pulumi up` prints too.")
@click.option(
    "--runners", is_flag=True, help="Print only the pools that register runners, as a matrix for GitHub Actions."
)
@options.as_json
def command(file: TextIO, no_notes: bool, runners: bool, as_json: bool) -> None:
    """Print each pool of a deployed stack: its machines, their cost, and the verdict of the smoke check.

    The command reads the outputs of the stack from FILE or, by default, from stdin. It sends no request to a cloud.

    \b
    Examples:
      pulumi stack output --stack staging --json | gpu-ci status
      gpu-ci status outputs.json --json
      gpu-ci status outputs.json --runners
    """
    outputs = read(file)
    if runners:
        click.echo(json.dumps(matrix(outputs["pools"])))
        return
    targets = {each["pool"]: each for each in outputs.get("smokeTargets", [])}
    rows = [document(name, pool, targets.get(name, {})) for name, pool in sorted(outputs["pools"].items())]
    if as_json:
        print_json({"pools": rows, "cost": outputs.get("cost", {}).get("summary", "")})
        return
    print_table(_HEADINGS, [cells(row) for row in rows], right="max|USD/h at max")
    click.echo("")
    for row in rows:
        if row["said"]:
            click.echo(row["said"] if row["said"].startswith(f"{row['pool']}:") else f"{row['pool']}: {row['said']}")
    if summary := outputs.get("cost", {}).get("summary"):
        click.echo(f"cost: {summary}")
    if not no_notes and (old := old_prices(outputs["pools"])):
        click.echo(f"note: {old}")


def read(file: TextIO) -> dict[str, Any]:
    """Return the outputs of the stack. Raise InputError if the document is not the output of a stack with pools."""
    if file.isatty():
        raise InputError("gpu-ci status: stdin is a terminal", expected="the outputs of a stack, as JSON", hint=_HINT)
    try:
        found = json.load(file)
    except (ValueError, RecursionError):
        found = None
    pools = found.get("pools") if isinstance(found, Mapping) else None
    if not isinstance(pools, Mapping) or not all(isinstance(pool, Mapping) for pool in pools.values()):
        expected = "the outputs of a stack with the output pools, as JSON"
        raise InputError(
            f"gpu-ci status: {file.name}: not the outputs of a stack with pools", expected=expected, hint=_HINT
        )
    return dict(found)


def matrix(pools: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the name and the labels of each pool that registers runners. For a scale set, the label is its name."""
    return [
        {"name": name, "labels": [pool["scaleSetName"]] if pool.get("scaleSetName") else pool["runnerLabels"]}
        for name, pool in sorted(pools.items())
        if pool.get("scaleSetName") or pool.get("registersRunners")
    ]


def document(name: str, pool: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of one pool. Values that the pool lacks are empty."""
    return {
        "pool": name,
        "kind": pool.get("kind", ""),
        "machine": pool.get("machineType") or first_and_count(pool.get("instanceTypes") or ()),
        "gpu": f"{target['gpuCount']} x {target['gpu']}" if target else "",
        "market": pool.get("market", ""),
        "max": pool.get("max"),
        "usdPerHourAtMax": pool.get("cost", {}).get("usdPerHourAtMax"),
        "verdict": pool.get("verdict", ""),
        "said": pool.get("smokeSummary", ""),
        **{key: value for key, value in pool.get("cost", {}).items() if key == "usdPerHourByType"},
    }


def old_prices(pools: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a note about old and undated prices, or an empty text."""
    dates = {name: pool.get("cost", {}).get("priceDate", cost.UNKNOWN) for name, pool in pools.items()}
    prices = {
        name: None if day == cost.UNKNOWN else Price(0, "", "standard", None if day == cost.UNDATED else day, ())
        for name, day in dates.items()
    }
    return staleness.prices(prices, clock.today())


def cells(row: Mapping[str, Any]) -> list[str]:
    formatted = {"max": "" if row["max"] is None else f"{row['max']:g}", "usdPerHourAtMax": _price(row)}
    return [str(formatted.get(key, value)) for key, value in row.items() if key not in ("said", "usdPerHourByType")]


def _price(row: Mapping[str, Any]) -> str:
    """Return the cost of all machines. For several instance types, return the lowest and the highest cost."""
    price = row["usdPerHourAtMax"]
    if not isinstance(price, int | float):
        return str(price or "")
    known = [each for each in row.get("usdPerHourByType", {}).values() if isinstance(each, int | float)]
    least = f"{row['max'] * min(known):.2f}" if known else f"{price:.2f}"
    return f"{price:.2f}" if least == f"{price:.2f}" else f"{least} to {price:.2f}"
