"""`gpu-ci catalog show`: prints every fact about one machine, with its source and date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import click
import gpu_catalog
from gpu_catalog import Gpu, Machine
from gpu_catalog.locations import nearest_locations

from gpu_ci.cli import options
from gpu_ci.cli.catalog.listing import price_json, price_text, print_dates
from gpu_ci.cli.output import print_json, print_table

# The fields that are not in the table of facts: other tables show them, or they are about the row itself.
_NOT_FACTS = {"sources", "uncertain", "quota", "notes", "zoneless_regions", "unlisted_regions", "undated_zones"}
# The columns of the other tables: the heading, and the field of a row.
_QUOTA = {"market": "market", "uses the quota": "metric", "one machine needs": "per_machine", "unit": "unit",
          "other names": "alternatives", "certain": "certain"}  # fmt: skip
_AMI = {"EKS AMI type": "ami_type", "no new images since": "retired"}


@click.command("show")
@click.argument("machine", type=options.MACHINE)
@click.option("--region", type=options.REGION, metavar="REGION", help="Show prices of this region only.")
@options.as_json
def command(machine: Machine, region: str | None, as_json: bool) -> None:
    """Show one machine: every fact, its source and the date of the source.

    MACHINE is a machine type. For N1, it is the machine type and the attached GPUs. The mark (?) means that a fact has
    no vendor's source: it is general knowledge or inferred.

    \b
    Examples:
      gpu-ci catalog show g2-standard-8
      gpu-ci catalog show n1-standard-8+nvidia-tesla-t4x1 --region us-central1
      gpu-ci catalog show g2-standard-8 --json
    """
    found = document(machine, region)
    if as_json:
        print_json(found)
    else:
        show(machine, region, found)


def show(machine: Machine, region: str | None, found: Mapping[str, Any]) -> None:
    """Print the document as tables, each with an empty line above it."""
    click.echo(f"{machine.key}: {machine.gpu_count:g} x {machine.gpu.device_name or machine.gpu.name}")
    for text in machine.notes:
        click.echo(f"note: {text}")
    facts = [
        (
            name,
            "below" if name in ("zones", "regions") else _text(fact["value"]),
            _text([each["key"] + ("" if each["certain"] else " (?)") for each in fact["sources"]]),
        )
        for name, fact in found["facts"].items()
    ]
    _table(["fact", "value", "read in"], facts)
    places = [
        (f"{place} (?)" if place in machine.unlisted_regions else place, _text(zones))
        for place, zones in found["places"].items()
    ]
    _table(["region", "zones that sources name"], places)
    quotas = [{"market": market, **each} for market, rows in found["quotas"].items() for each in rows]
    for columns, rows in ((_QUOTA, quotas), (_AMI, found["ami_types"])):
        _table([*columns], [[_text(row[name]) for name in columns.values()] for row in rows])
    usd = [
        (place, *(price_text(prices.get(market)) for market in machine.markets))
        for place, prices in found["prices"].items()
        if prices
    ]
    _table(["USD/h in", *machine.markets], usd, "|".join(machine.markets))
    if not usd:
        click.echo("")
    prices = [price for prices in found["prices"].values() for price in prices.values()]
    if region and region not in machine.regions:
        near = ", ".join(nearest_locations(region, machine.regions)[:3])
        where = f"; the nearest regions are {near}" if near else " or in any other region"
        click.echo(f"{machine.machine_type} is not in {region}{where}")
    else:
        print_dates(prices)
    keys = [each["key"] for fact in found["facts"].values() for each in fact["sources"]]
    keys += [key for price in prices for key in price["sources"]]
    cited = map(gpu_catalog.source, dict.fromkeys(keys))
    _table(["source", "date", "what it is"], [(each.key, each.date or "undated", each.what) for each in cited])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: str = "GiB|at most") -> None:
    if rows:
        click.echo("")
        print_table(headings, rows, right=right)


def _text(value: Any) -> str:
    """Return a JSON value for a table cell."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_text(each)}" for name, each in value.items() if each)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else "-" if value in (None, "") else str(value)


def facts(machine: Machine) -> Iterator[tuple[str, Any, Gpu | Machine, str]]:
    """Yield name, value, row and field of each fact, first of the machine, then of its GPU."""
    rows: tuple[tuple[str, Gpu | Machine], ...] = (("", machine), ("gpu.", machine.gpu))
    for prefix, row in rows:
        names = [field.name for field in fields(row) if field.name not in _NOT_FACTS]
        # Facts that are not fields, but have a source: one market, the quota of one market, all regions.
        names += [name for name in row.sources if name not in names and _value(row, name) is not None]
        for name in names:
            value = _value(row, name)
            if value or row.sources.get(name):
                yield f"{prefix}{name}", value, row, name


def _value(row: Gpu | Machine, name: str) -> Any:
    """Return the value of a fact. A name such as markets.spot or quota.spot is a fact about one market."""
    name, _, part = name.partition(".")
    value = getattr(row, name, None)
    if isinstance(value, Gpu):
        return value.key
    if isinstance(value, Mapping):
        return (
            tuple(value.get(part, ()))
            if part
            else tuple(dict.fromkeys(each for all_ in value.values() for each in all_))
        )
    return part or value


def document(machine: Machine, region: str | None) -> dict[str, Any]:
    """Return the facts as JSON, each with its sources."""
    places, markets = [region] if region else machine.regions, machine.markets
    return {
        "machine": machine.key,
        "facts": {
            name: {"value": _to_json(value), "sources": _to_json(gpu_catalog.sources_of(row, fact))}
            for name, value, row, fact in facts(machine)
        },
        "notes": list(machine.notes),
        "places": {place: list(gpu_catalog.zones(machine, place)) for place in machine.regions},
        "unlisted_regions": list(machine.unlisted_regions),
        "quotas": {market: _to_json(gpu_catalog.quota_metrics(machine, market)) for market in markets},
        "driver_branches": _to_json(gpu_catalog.driver_branches(machine)),
        "ami_types": _to_json(gpu_catalog.ami_types(machine)) if machine.cloud == "aws" else [],
        "prices": {
            place: {
                market: price_json(found) for market in markets if (found := gpu_catalog.price(machine, place, market))
            }
            for place in places
        },
    }


def _to_json(value: Any) -> Any:
    """Convert a row to JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value
