"""`gpu-ci catalog list`: a table of the machines that match all options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import gpu_catalog
from gpu_catalog import Machine, Price, offers
from gpu_catalog.offers import Offer

from gpu_ci import versions
from gpu_ci.cli import clock, options
from gpu_ci.cli.output import InputError, note, print_json, print_table, print_text


@click.command("list")
@click.option("--gpu", type=options.GPU, help="The GPU: l4, a100-80gb, nvidia-tesla-t4.")
@click.option("--cloud", type=options.CLOUD, help="gcp or aws.")
@click.option("--region", type=options.REGION, metavar="REGION",
              help="Only machines in this region; adds the prices there.")  # fmt: skip
@click.option("--zone", type=options.ZONE, metavar="ZONE",
              help="Only machines in this Google zone. AWS publishes regions only.")  # fmt: skip
@click.option("--market", type=options.MARKET, help="The market: standard, spot, flex-start, ...")
@click.option("--architecture", type=options.ARCHITECTURE, help="The CPU architecture: x86_64 or arm64.")
@click.option("--min-gpus", type=click.FloatRange(min=0), default=0, help="Minimum number of GPUs of one machine.")
@click.option("--min-memory-gib", type=click.FloatRange(min=0), default=0, help="Minimum nominal memory of one GPU.")
@click.option("--min-compute-capability", metavar="X.Y", default="", help="The minimum, such as 8.0.")
@click.option("--dtype", type=options.DTYPE, help="A number type with hardware support: fp16, bf16, fp8, ...")
@click.option("--torch", metavar="VERSION", default="", help="A wheel that must run on the GPU, such as 2.9.1+cu129.")
@click.option("--min-vcpus", type=click.IntRange(min=0), default=0, help="Minimum vCPUs of the machine.")
@click.option("--budget", type=click.FloatRange(min=0, min_open=True), help="With --sort price: maximum USD per hour.")
@click.option("--sort", type=click.Choice(["name", "price"]), default="name", help="price: cheapest offers first.")
@click.option("--n1", is_flag=True, help="Include the N1 machines with attached GPUs, about 200.")
@options.as_json
def command(
    region: str | None,
    zone: str | None,
    min_compute_capability: str,
    budget: float | None,
    sort: str,
    n1: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List the machines that match all options. The exit code is 1 if no machine matches.

    With --sort price, the list has one row for each family of machines with the same GPUs: its cheapest size, market
    and region. N1 machines are included. Rows of unknown price come last. * marks a price that is older than 90 days,
    undated or estimated. Notes below the list are facts to consider before you choose.

    \b
    Examples:
      gpu-ci catalog list --cloud gcp --min-compute-capability 8.0
      gpu-ci catalog list --gpu t4 --zone us-central1-a --n1
      gpu-ci catalog list --sort price --min-memory-gib 24 --dtype bf16 --market spot
      gpu-ci catalog list --sort price --min-memory-gib 80 --min-gpus 8 --budget 60 --json
    """
    if min_compute_capability and not all(part.isdecimal() for part in min_compute_capability.split(".", 1)):
        raise click.BadParameter(
            f"{min_compute_capability!r} is not a compute capability, such as 8.0",
            param_hint="'--min-compute-capability'",
        )
    if region and zone and gpu_catalog.region_of(zone) != region:
        raise InputError(
            f"gpu-ci catalog list: --zone {zone} is not in --region {region}",
            hint=f"use --region {gpu_catalog.region_of(zone)}, or only one of the two options",
        )
    if budget is not None and sort != "price":
        raise InputError("gpu-ci catalog list: --budget requires --sort price", hint="add --sort price")
    filters |= {"region": region, "zone": zone, "min_compute_capability": min_compute_capability}
    try:
        matches = matching(filters)
    except ValueError as error:
        raise InputError(f"gpu-ci catalog list: {error}", hint="gpu-ci catalog list --help") from None
    place = region or (gpu_catalog.region_of(zone) if zone else "")
    if sort == "price":
        nvidia = (each for each in matches if each.gpu.is_nvidia)
        found = offers.cheapest(nvidia, filters["market"], place or None, budget=budget)
        print_offers(found, filters["dtype"], "" if filters["torch"] else versions.TORCH, as_json)
        is_empty = not found
    else:
        listed = [each for each in matches if n1 or not each.attached]
        print_machines(listed, place, as_json)
        if len(listed) < len(matches):
            note(f"and {len(matches) - len(listed)} N1 machines with attached GPUs: add --n1 to see them")
        is_empty = not matches
    if is_empty:
        note("no machine of the catalog matches all options")
        for hint in hints(filters) if not matches else ("machines match without --budget",):
            note(f"  hint: {hint}")
        click.get_current_context().exit(1)


def matching(filters: Mapping[str, Any]) -> list[Machine]:
    """Return the machines that match all options of the command but the budget."""
    gpus, dtype, torch, vcpus = (filters[name] for name in ("min_gpus", "dtype", "torch", "min_vcpus"))
    names = ("gpu", "cloud", "region", "zone", "market", "architecture", "min_compute_capability")
    found = gpu_catalog.machines(
        **{name: filters[name] for name in names}, min_gpu_memory_gib=filters["min_memory_gib"]
    )
    return [
        each for each in found if each.gpu_count >= gpus and each.vcpus >= vcpus and offers.supports(each, dtype, torch)
    ]


def hints(filters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options without which machines would match."""
    for name, value in filters.items():
        without = type(value)() if isinstance(value, int | float) else "" if name == "min_compute_capability" else None
        if value and (found := matching({**filters, name: without})):
            yield f"{len(found)} match without --{name.replace('_', '-')}"


def print_offers(found: Sequence[Offer], dtype: str | None, default_torch: str, as_json: bool) -> None:
    """Print offers and their caveats. A caveat of several machines is printed once."""
    rows = [
        {
            **row_json(each.machine, ""),
            "market": each.market,
            "region": each.region,
            "price": each.price and price_json(each.price),
            "caveats": list(offers.caveats(each, dtype, default_torch)),
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
    elif found:
        cells = [
            (*_cells(each.machine), each.market, each.region,
             price_text(row["price"]) + ("*" if each.is_doubtful(clock.today()) else " "))
            for each, row in zip(found, rows, strict=True)
        ]  # fmt: skip
        print_table(["machine", "GPUs", "GiB", "cc", "market", "region", "USD/h"], cells, right="GiB|cc|USD/h")
        print_dates([row["price"] for row in rows if row["price"]])
        for text in dict.fromkeys(text for row in rows for text in row["caveats"]):
            names = [row["machine_type"] for row in rows if text in row["caveats"]]
            print_text(f"note: {text}: {'all' if len(names) == len(found) else ', '.join(dict.fromkeys(names))}", 2)


def _cells(machine: Machine) -> tuple[str, ...]:
    return (
        machine.key, f"{machine.gpu_count:g} x {machine.gpu.name}",
        f"{gpu_catalog.nominal_gpu_memory_gib(machine):g}", machine.gpu.compute_capability or "-",
    )  # fmt: skip


def print_machines(machines: Sequence[Machine], region: str, as_json: bool) -> None:
    rows = [row_json(each, region) for each in machines]
    if as_json:
        print_json(rows)
        return
    markets = ["standard", "spot"] if region else []
    headings = ["machine", "GPUs", "GPU GiB", "cc", "vCPUs", "GiB", "sold as", *(f"{each} USD/h" for each in markets)]
    cells = [
        [*_cells(each), str(each.vcpus), f"{each.memory_gib:g}", ", ".join(each.markets) or "-"]
        + ([price_text(row["prices"].get(market)) for market in markets] if region else [str(len(each.regions))])
        for each, row in zip(machines, rows, strict=True)
    ]
    right = "GPU GiB|cc|vCPUs|GiB|regions|standard USD/h|spot USD/h"
    if cells:
        print_table(headings if region else [*headings, "regions"], cells, right=right)
    if cells and region:
        print_dates([price for row in rows for market in markets if (price := row["prices"].get(market))])


def price_text(price: Mapping[str, Any] | None) -> str:
    """Return a price for a table cell: "-" for an unknown price, "~" before an estimated price."""
    return "-" if price is None else f"{'~' if price['estimated'] else ''}{price['usd_per_hour']:.4f}"


def print_dates(prices: Sequence[Mapping[str, Any]]) -> None:
    """Print the dates and sources of the prices of a table."""
    read: dict[str, set[str]] = {}
    for price in prices:
        read.setdefault(price["date"] or "an unknown day", set()).update(price["sources"])
    days = ", ".join(f"{day} ({', '.join(sorted(keys))})" for day, keys in sorted(read.items()))
    about = "; ~ is estimated: on-demand less the saving then" if any(price["estimated"] for price in prices) else ""
    click.echo(f"prices of {days}{about}; - is not known or not sold" if prices else "no price of these is known")


def row_json(machine: Machine, region: str) -> dict[str, Any]:
    """Return the row of a machine as JSON, with the field names of the catalog."""
    row = {
        "machine": machine.key,
        "cloud": machine.cloud,
        "machine_type": machine.machine_type,
        "gpu": machine.gpu.key,
        "gpu_count": machine.gpu_count,
        "gpu_memory_gib": gpu_catalog.nominal_gpu_memory_gib(machine),
        "compute_capability": machine.gpu.compute_capability,
        "vcpus": machine.vcpus,
        "memory_gib": machine.memory_gib,
        "architecture": machine.architecture,
        "markets": list(machine.markets),
        "regions": list(machine.regions),
    }
    if region:
        prices = {market: gpu_catalog.price(machine, region, market) for market in machine.markets}
        row["prices"] = {market: price and price_json(price) for market, price in prices.items()}
    return row


def price_json(price: Price) -> dict[str, Any]:
    """Return a price as JSON, with its date and sources."""
    return {
        "usd_per_hour": price.usd_per_hour,
        "date": price.date,
        "estimated": price.estimated,
        "sources": list(price.sources),
    }
