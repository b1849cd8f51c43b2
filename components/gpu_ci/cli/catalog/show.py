"""`gpu-ci catalog show`: prints every fact about one machine, with its source and date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import click
import gpu_catalog
from gpu_catalog import Gpu, LocalDisks, Machine, Price
from gpu_catalog.locations import nearest_locations

from gpu_ci.cli import options
from gpu_ci.cli.catalog.listing import price_json, price_text, print_dates
from gpu_ci.cli.output import print_json, print_table

# The fields that are not in the table of facts: other tables show them, or they are about the row itself.
_NOT_FACTS = {"sources", "uncertain", "quota", "notes", "zoneless_regions", "unlisted_regions"}


@click.command("show")
@click.argument("machine", type=options.MACHINE)
@click.option("--region", type=options.REGION, help="Show prices of this region only.")
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
    if as_json:
        print_json(as_document(machine, region))
        return
    click.echo(f"{machine.key}: {machine.gpu_count:g} x {machine.gpu.device_name or machine.gpu.name}")
    for text in machine.notes:
        click.echo(f"note: {text}")
    click.echo("")
    known = list(facts(machine))
    print_table(
        ["fact", "value", "read in"],
        [
            (name, "below" if name in ("zones", "regions") else _text(value), _origin(row, fact))
            for name, value, row, fact in known
        ],
    )
    print_places(machine)
    print_tables(machine)
    prices = print_prices(machine, region)
    keys = [source.key for _, _, row, fact in known for source in gpu_catalog.sources_of(row, fact)]
    keys += [key for price in prices for key in price.sources]
    cited = map(gpu_catalog.source, dict.fromkeys(keys))
    click.echo("")
    print_table(["source", "date", "what it is"], [(each.key, each.date or "undated", each.what) for each in cited])


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


def _origin(row: Gpu | Machine, fact: str) -> str:
    """Return the keys of the sources, with a (?) for a source that is not a vendor's text."""
    found = gpu_catalog.sources_of(row, fact)
    return ", ".join(each.key + ("" if each.certain else " (?)") for each in found) or "-"


def _text(value: Any) -> str:
    if isinstance(value, LocalDisks):
        parts = (
            value.mode,
            f"counts {', '.join(map(str, value.counts))}" if value.counts else "",
            f"{value.size_gib:g} GiB" if value.size_gib else "",
            f"only in {', '.join(value.only_zones)}" if value.only_zones else "",
            f"not in {', '.join(value.not_zones)}" if value.not_zones else "",
        )
        return "; ".join(filter(None, parts))
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else "-" if value in (None, "") else str(value)


def print_places(machine: Machine) -> None:
    """Print the regions and the zones that a source names. (?) marks a region that the cloud's own page lacks."""
    rows = [
        (f"{region} (?)" if region in machine.unlisted_regions else region,
         ", ".join(gpu_catalog.zones(machine, region)) or "-")
        for region in machine.regions
    ]  # fmt: skip
    if rows:
        click.echo("")
        print_table(["region", "zones that sources name"], rows)


def print_tables(machine: Machine) -> None:
    """Print quotas, driver branches, MIG profiles and AMI types, if the catalog has any."""
    quotas = [
        (market, quota.metric, f"{quota.per_machine:g} {quota.unit}", ", ".join(quota.alternatives) or "-",
         "yes" if quota.certain else "no")
        for market in machine.markets
        for quota in gpu_catalog.quota_metrics(machine, market)
    ]  # fmt: skip
    if quotas:
        click.echo("")
        print_table(["market", "uses the quota", "one machine needs", "other names", "certain"], quotas)
    if branches := gpu_catalog.driver_branches(machine):
        last = "newest" if branches.last is None else f"R{branches.last}"
        click.echo(f"\nNVIDIA driver branches: R{branches.first} to {last}{'' if branches.certain else ' (?)'}")
    if profiles := gpu_catalog.mig_profiles(machine):
        rows = [(p.profile, str(p.memory_gib), str(p.max_instances), p.gke_partition_size or "-") for p in profiles]
        click.echo("")
        print_table(["MIG profile", "GiB", "at most", "on GKE"], rows, right="GiB|at most")
    if machine.cloud == "aws" and (amis := gpu_catalog.ami_types(machine)):
        click.echo("")
        print_table(["EKS AMI type", "no new images since"], [(each.ami_type, each.retired or "-") for each in amis])


def print_prices(machine: Machine, region: str | None) -> list[Price]:
    """Print USD per hour by region and market, and return the printed prices."""
    known = {
        place: {market: price for market in machine.markets if (price := gpu_catalog.price(machine, place, market))}
        for place in ([region] if region else machine.regions)
    }
    rows = [
        (place, *(price_text(prices.get(market)) for market in machine.markets))
        for place, prices in known.items()
        if prices
    ]
    click.echo("")
    if rows:
        print_table(["USD/h in", *machine.markets], rows, right="|".join(machine.markets))
    listed = [price for prices in known.values() for price in prices.values()]
    if region and region not in machine.regions:
        near = ", ".join(nearest_locations(region, machine.regions)[:3])
        where = f"; the nearest regions are {near}" if near else " or in any other region"
        click.echo(f"{machine.machine_type} is not in {region}{where}")
    else:
        print_dates(listed)
    return listed


def as_document(machine: Machine, region: str | None) -> dict[str, Any]:
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
        "mig_profiles": _to_json(gpu_catalog.mig_profiles(machine)),
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
