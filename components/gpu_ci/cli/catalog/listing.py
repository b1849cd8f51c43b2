"""`gpu-ci catalog list`: a table of the machines that match all options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import gpu_catalog
from gpu_catalog import Gpu, Machine, Price

from gpu_ci.cli import options
from gpu_ci.cli.output import InputError, note, print_json, print_table


@click.command("list")
@click.option("--gpu", type=options.GPU, help="The GPU: l4, a100-80gb, nvidia-tesla-t4.")
@click.option("--cloud", type=options.CLOUD, help="gcp or aws.")
@click.option("--region", type=options.REGION, help="Only machines in this region; adds the prices there.")
@click.option("--zone", type=options.ZONE, help="Only machines in this Google zone. AWS publishes regions only.")
@click.option("--market", type=options.MARKET, help="The market: standard, spot, flex-start, ...")
@click.option("--architecture", type=options.ARCHITECTURE, help="The CPU architecture: x86_64 or arm64.")
@click.option("--min-memory-gib", type=click.FloatRange(min=0), default=0, help="Minimum nominal memory of one GPU.")
@click.option("--min-compute-capability", metavar="X.Y", default="", help="The minimum, such as 8.0.")
@click.option("--n1", is_flag=True, help="Include the N1 machines with attached GPUs, about 200.")
@click.option("--legacy", is_flag=True, help="Include machines known by name only, such as those with AMD GPUs.")
@options.as_json
def command(
    gpu: Gpu | None,
    cloud: Any,
    region: str | None,
    zone: str | None,
    market: str | None,
    architecture: Any,
    min_memory_gib: float,
    min_compute_capability: str,
    n1: bool,
    legacy: bool,
    as_json: bool,
) -> None:
    """List the machines that match all options. The exit code is 1 if no machine matches.

    \b
    Examples:
      gpu-ci catalog list --cloud gcp --min-compute-capability 8.0
      gpu-ci catalog list --gpu t4 --zone us-central1-a --n1
      gpu-ci catalog list --region us-east-1 --market capacity-block --json
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
    filters: dict[str, Any] = {
        "gpu": gpu,
        "cloud": cloud,
        "region": region,
        "zone": zone,
        "market": market,
        "architecture": architecture,
        "min_gpu_memory_gib": min_memory_gib,
        "min_compute_capability": min_compute_capability,
    }
    matches = gpu_catalog.machines(**filters, legacy=legacy)
    listed = [each for each in matches if n1 or not each.attached]
    place = region or (gpu_catalog.region_of(zone) if zone else "")
    if as_json:
        print_json([row_json(each, place) for each in listed])
    elif listed:
        table(listed, place)
    if len(listed) < len(matches):
        note(f"and {len(matches) - len(listed)} N1 machines with attached GPUs: add --n1 to see them")
    if not matches:
        note("no machine of the catalog matches all options")
        if older := gpu_catalog.machines(**filters, legacy=True):
            note(f"  hint: --legacy adds {len(older)} machines that are known by name only")
        click.get_current_context().exit(1)


def table(machines: Sequence[Machine], region: str) -> None:
    markets = [market for market in ("standard", "spot") if region]
    print_table(
        ["machine", "GPUs", "GPU GiB", "cc", "vCPUs", "GiB", "sold as", *(f"{each} USD/h" for each in markets)]
        + ([] if region else ["regions"]),
        [
            (
                each.key,
                f"{each.gpu_count:g} x {each.gpu.name}",
                f"{gpu_catalog.nominal_gpu_memory_gib(each):g}",
                each.gpu.compute_capability or "-",
                str(each.vcpus),
                f"{each.memory_gib:g}",
                ", ".join(each.markets) or "-",
                *(price_text(gpu_catalog.price(each, region, market)) for market in markets),
                *(() if region else (str(len(each.regions)),)),
            )
            for each in machines
        ],
        right="GPU GiB|cc|vCPUs|GiB|regions|standard USD/h|spot USD/h",
    )
    if region:
        print_dates([price for each in machines for m in markets if (price := gpu_catalog.price(each, region, m))])


def price_text(price: Price | None) -> str:
    """Return a price for a table cell: "-" for an unknown price, "~" before an estimated price."""
    return "-" if price is None else f"{'~' if price.estimated else ''}{price.usd_per_hour:.4f}"


def print_dates(prices: Sequence[Price]) -> None:
    """Print the dates and sources of the prices of a table."""
    read: dict[str, set[str]] = {}
    for price in prices:
        read.setdefault(price.date or "an unknown day", set()).update(price.sources)
    days = ", ".join(f"{day} ({', '.join(sorted(keys))})" for day, keys in sorted(read.items()))
    about = "; ~ is estimated: on-demand less the saving then" if any(price.estimated for price in prices) else ""
    click.echo(f"prices of {days}{about}; - is not known or not sold" if prices else "no price of these is known")


def row_json(machine: Machine, region: str) -> dict[str, Any]:
    """Return the row of a machine as JSON, with the field names of the catalog."""
    prices = {
        market: None if price is None else price_json(price)
        for market in machine.markets
        if region
        for price in (gpu_catalog.price(machine, region, market),)
    }
    return {
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
        **({"prices": prices} if region else {}),
    }


def price_json(price: Price) -> dict[str, Any]:
    """Return a price as JSON, with its date and sources."""
    return {
        "usd_per_hour": price.usd_per_hour,
        "date": price.date,
        "estimated": price.estimated,
        "sources": list(price.sources),
    }
