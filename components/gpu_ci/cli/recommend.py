"""`gpu-ci recommend`: prints machines that meet the needs of a job, or the reasons why no machine meets them.

A need is a minimum that the job requires, such as GPU memory (`gpu_catalog.needs.Needs`). Each need is an option.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import click
from gpu_catalog import nominal_gpu_memory_gib
from gpu_catalog.needs import Needs
from gpu_catalog.recommend import NoMatch, Recommendation, explain_no_match, recommend, shared_texts

from gpu_ci import versions
from gpu_ci.cli import clock, options
from gpu_ci.cli.catalog.listing import price_json, price_text
from gpu_ci.cli.output import InputError, print_json, print_table, print_text

MORE_THAN_NONE = click.FloatRange(min=0, min_open=True)


@click.command("recommend")
@click.option("--gpu-memory-gib", type=float, default=0, help="Nominal memory of one GPU: 24 for an L4.")
@click.option(
    "--gpu-count",
    type=MORE_THAN_NONE,
    default=1,
    help="GPUs of one machine. Below 1: also fractions.",
    show_default=True,
)
@click.option("--compute-capability", metavar="X.Y", default="", help="The minimum, such as 8.0.")
@click.option("--dtype", type=options.DTYPE, help="A number type with hardware support: fp16, bf16, fp8, ...")
@click.option(
    "--budget", "budget_usd_per_hour", metavar="USD", type=float, help="Maximum price of one machine per hour."
)
@click.option("--market", type=options.MARKET, help="The market; by default the cheapest.")
@click.option("--cloud", type=options.CLOUD, help="gcp or aws.")
@click.option("--region", type=options.REGION, help="The region; by default the cheapest.")
@click.option("--architecture", type=options.ARCHITECTURE, help="The CPU architecture: x86_64 or arm64.")
@click.option("--memory-gib", type=float, default=0, help="Minimum memory of the machine.")
@click.option("--vcpus", type=int, default=0, help="Minimum vCPUs of the machine.")
@click.option("--torch", metavar="VERSION", default="", help="A wheel that must run on the GPU, such as 2.9.1+cu129.")
@click.option("--limit", type=click.IntRange(min=1), default=10, help="Maximum number of machines.", show_default=True)
@click.option("--every-size", is_flag=True, help="Show every size of a machine family, not only the best one.")
@options.as_json
def command(limit: int, every_size: bool, as_json: bool, **options: Any) -> None:
    """Show machines that meet the needs of a job, cheapest first. Machines without a known price come last.

    A spot price that is older than 90 days, undated or estimated is marked with *. To choose the market, region and
    size of such a machine, the command uses the standard price in the same region, because a spot price is never
    higher. --budget applies to the printed price. A reason that several machines share is printed once, after their
    numbers.

    Without --torch, a note names the GPUs that the torch version of the smoke check does not support. The exit code is
    1 if no machine meets the needs.

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
            click.echo("* an old, undated or estimated price: see the reasons")
        click.echo("")
        print_reasons(found)
    if not found:
        click.get_current_context().exit(1)


def print_reasons(found: list[Recommendation]) -> None:
    """Print the reasons of each machine, then the reasons that several machines have."""
    shared = shared_texts(found)
    printed_once = {text for texts in shared.values() for text in texts}
    for rank, each in enumerate(found, 1):
        if own := [text for text in each.texts if text not in printed_once]:
            print_text(f"{rank:<3} {'; '.join(own)}", 4)
    for ranks, texts in shared.items():
        numbers = f"{', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
        machines = "all machines" if len(ranks) == len(found) else f"machines {numbers}"
        print_text(f"{machines}: {'; '.join(texts)}", 4)


def as_options(text: str) -> str:
    """Replace the names of needs in a text by the options of this command, such as vcpus by --vcpus."""
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
