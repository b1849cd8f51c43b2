"""`gpu-ci recommend`: machines for what a job needs, cheapest first, and what is in the way where there are none."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import click
from gpu_catalog import nominal_gpu_memory_gib
from gpu_catalog.needs import Needs
from gpu_catalog.recommend import NoMatch, Recommendation, explain_no_match, recommend

from gpu_ci import versions
from gpu_ci.cli import clock, options
from gpu_ci.cli.catalog.listing import price_json, price_text
from gpu_ci.cli.output import InputError, print_json, print_table, print_text

MORE_THAN_NONE = click.FloatRange(min=0, min_open=True)


@click.command("recommend")
@click.option("--gpu-memory-gib", type=float, default=0, help="Of one GPU, by its nominal size: 24 for an L4.")
@click.option(
    "--gpu-count", type=MORE_THAN_NONE, default=1, help="Below 1, fractions of a GPU do as well.", show_default=True
)
@click.option("--compute-capability", metavar="X.Y", default="", help="The least, such as 8.0.")
@click.option("--dtype", type=options.DTYPE, help="Numbers the hardware multiplies by itself: fp16, bf16, fp8, ...")
@click.option("--budget", "budget_usd_per_hour", metavar="USD", type=float, help="The most one machine costs an hour.")
@click.option("--market", type=options.MARKET, help="How it is bought; by default the cheapest way.")
@click.option("--cloud", type=options.CLOUD, help="gcp or aws.")
@click.option("--region", type=options.REGION, help="Where; by default where it is cheapest.")
@click.option("--architecture", type=options.ARCHITECTURE, help="Of the processor: x86_64 or arm64.")
@click.option("--memory-gib", type=float, default=0, help="Of the machine itself.")
@click.option("--vcpus", type=int, default=0, help="Of the machine.")
@click.option("--torch", metavar="VERSION", default="", help="A wheel that has to run on the GPU, such as 2.9.1+cu129.")
@click.option("--limit", type=click.IntRange(min=1), default=10, help="How many to show.", show_default=True)
@click.option("--every-size", is_flag=True, help="Every size of a family, not only the best one.")
@options.as_json
def command(limit: int, every_size: bool, as_json: bool, **options: Any) -> None:
    """Machines that meet the needs, cheapest first, those of unknown price last. The exit code is 1 where none does.

    A spot price that is older than 90 days, undated or estimated is marked with *. Which way of buying a machine, which
    region and which size of a family is shown does not rely on such a price, but on the standard price of the same
    machine there: the most that it can be. The budget is held against the price shown.

    Without --torch, a GPU on which the torch that a pool installs does not run says so.

    \b
    Examples:
      gpu-ci recommend --gpu-memory-gib 24
      gpu-ci recommend --dtype fp8 --market spot --cloud gcp
      gpu-ci recommend --gpu-memory-gib 80 --gpu-count 8 --region us-east-1 --budget 60 --json
    """
    try:
        needs = Needs(**options)
    except ValueError as error:
        raise InputError(f"gpu-ci recommend: {as_options(str(error))}", hint="gpu-ci recommend --help") from None
    found = recommend(needs, limit, every_size=every_size, today=clock.today(), default_torch=versions.TORCH)
    missing = None if found else explain_no_match(needs)
    if as_json:
        document = {"machines": [as_document(each) for each in found], "nothing_fits": missing and why(missing)}
        print_json(document)
    elif missing:
        click.echo(f"nothing fits: {as_options(missing.text)}")
    else:
        rows = [row(rank, each) for rank, each in enumerate(found, 1)]
        print_table(["", "machine", "GPUs", "GiB", "cc", "market", "region", "USD/h"], rows, right="GiB|cc|USD/h")
        if any(each.offer.price_caveat for each in found):
            click.echo("* not a current price: old, undated or estimated, as the reasons say")
        click.echo("")
        for rank, each in enumerate(found, 1):
            print_text(f"{rank:<3} {each.text}", 4)
    if not found:
        click.get_current_context().exit(1)


def as_options(text: str) -> str:
    """A text of the catalog's with the needs named as this command has them."""
    for need in sorted(Needs.__dataclass_fields__, key=len, reverse=True):
        option = "--budget" if need.startswith("budget") else f"--{need.replace('_', '-')}"
        text = re.sub(rf"\b(?<!-){need}\b", option, text) if "_" in need or need == "vcpus" else text
    return text


def row(rank: int, each: Recommendation) -> tuple[str, ...]:
    machine, offer = each.machine, each.offer
    return (
        str(rank), machine.key, f"{machine.gpu_count:g} x {machine.gpu.name}",
        f"{nominal_gpu_memory_gib(machine):g}",
        machine.gpu.compute_capability, offer.market, offer.region,
        price_text(offer.price) + ("*" if offer.price_caveat else " "),
    )  # fmt: skip


def as_document(each: Recommendation) -> dict[str, Any]:
    return {
        "machine": each.machine.key,
        "market": each.offer.market,
        "region": each.offer.region,
        "zones": list(each.offer.zones),
        "price": each.offer.price and price_json(each.offer.price),
        "compared_by_usd_per_hour": each.offer.counts_as,
        "reasons": list(each.reasons),
        "caveats": list(each.caveats),
    }


def why(missing: NoMatch) -> dict[str, Any]:
    return {
        "text": missing.text,
        "machines": missing.machines,
        "excluded": dict(missing.excluded),
        "freed": dict(missing.freed),
        "nearest": missing.nearest.key,
        "lacks": [
            {name: value for name, value in asdict(need).items() if name != "distance"} for need in missing.unmet
        ],
    }
