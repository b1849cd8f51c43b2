"""The commands `pulumi-sandbox world break`, `faults` and `mend`. They plant, list and remove faults."""

from __future__ import annotations

import json

import click

from pulumi_sandbox.cli.world_views import open_world, print_json, print_table
from pulumi_sandbox.world.faults import KINDS, Fault

SLOW_SECONDS = 30.0
KINDS_HELP = "\n".join(f"    {kind:<17}{meaning}" for kind, meaning in KINDS.items())


@click.command(
    name="break",
    help=f"""Plant a fault of a KIND. It takes effect --times times.

    \b
{KINDS_HELP}

    \b
    pulumi-sandbox world break stockout --zone us-central1-a --times 2
    pulumi-sandbox world break slow --seconds 60 --on '*InstanceTemplate'
    pulumi-sandbox world break crash --on l4-template
    pulumi-sandbox world break refuse --on 'aws:*' --message 'AccessDenied: no'
    pulumi-sandbox world break guest --set GPU_SMOKE_DEVICE=cuda
    """,
)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.option(
    "--on", default="*", metavar="GLOB", help="The resources it affects: a glob over type, logical name or id."
)
@click.option(
    "--times",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="How often it takes effect; 0: until it is removed.",
)
@click.option("--zone", default="", help="Only in this zone.")
@click.option("--seconds", type=click.FloatRange(0), help="slow: the delay, by default 30.")
@click.option(
    "--message", default="", help="refuse, busy, quota, image: the error's text instead of the vendor's usual one."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="guest: a variable of the VM or the pod.")
def break_command(
    kind: str, on: str, times: int, zone: str, seconds: float | None, message: str, settings: tuple[str, ...]
) -> None:
    variables = dict(parse_setting(setting) for setting in settings)
    for is_set, option, kinds in (
        (bool(variables), "--set", ("guest",)),
        (seconds is not None, "--seconds", ("slow",)),
        (bool(message), "--message", ("refuse", "busy", "quota", "stockout", "image")),
    ):
        if is_set and kind not in kinds:
            raise click.UsageError(f"{option} applies to {', '.join(kinds)}, not to {kind}")
    if kind == "guest" and not variables:
        raise click.UsageError("guest needs --set KEY=VALUE, such as --set GPU_SMOKE_DEVICE=cuda")
    delay_seconds = (SLOW_SECONDS if kind == "slow" else 0.0) if seconds is None else seconds
    fault = Fault(kind, on, times, zone, delay_seconds, message, variables)
    with open_world() as world:
        number = world.add_fault(fault)
    click.echo(f"planted fault {number}: {describe(fault)}\n  remove it with: pulumi-sandbox world mend {number}")


def parse_setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text}\n  expected: KEY=VALUE", param_hint="--set")
    return key, value


def describe(fault: Fault) -> str:
    meaning = KINDS[fault.kind].replace("--seconds", f"{fault.seconds:g} s").replace(", with --message", "")
    target = "" if fault.on == "*" else f", on {fault.on}"
    in_zone = f", in {fault.zone}" if fault.zone else ""
    how_often = {0: "always", 1: "once"}.get(fault.times, f"{fault.times} times")
    variables = "".join(f", {key}={value}" for key, value in fault.settings.items())
    message = f", {json.dumps(fault.message)}" if fault.message else ""
    return f"{fault.kind} ({meaning}){target}{in_zone}{variables}{message}, {how_often}"


@click.command(name="faults")
@click.option("--json", "wants_json", is_flag=True, help="JSON instead of a table.")
def faults_command(wants_json: bool) -> None:
    """List the planted faults."""
    with open_world() as world:
        found = world.faults()
    if wants_json:
        print_json([vars(fault) for fault in found])
    elif found:
        print_table(["FAULT", "WHAT"], ([str(fault.id), describe(fault)] for fault in found))
    else:
        click.echo("no faults are planted")


@click.command(name="mend")
@click.argument("fault", type=int, required=False)
@click.option("--all", "remove_all", is_flag=True, help="Remove all faults.")
def mend_command(fault: int | None, remove_all: bool) -> None:
    """Remove a FAULT, or --all."""
    if (fault is None) != remove_all:
        raise click.UsageError("expected the number of a fault, or --all")
    with open_world() as world:
        removed = world.clear_faults(fault)
        planted = [str(each.id) for each in world.faults()]
    if fault is not None and not removed:
        hint = f"planted faults: {', '.join(planted)}" if planted else "no faults are planted"
        raise click.ClickException(f"world: fault {fault}: no such fault\n  hint: {hint}")
    click.echo(f"mended {removed} fault{'' if removed == 1 else 's'}" if removed else "no faults were planted")
