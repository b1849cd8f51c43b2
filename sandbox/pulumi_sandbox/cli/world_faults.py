"""The commands `pulumi-sandbox world break`, `faults` and `clear_faults`."""

from __future__ import annotations

import json

import click

from pulumi_sandbox.cli.world_views import open_world, print_json, print_table
from pulumi_sandbox.world.faults import KINDS, Fault

DEFAULT_SECONDS = {"slow": 30.0, "rate-limit": 60.0, "secondary-limit": 60.0}
KINDS_HELP = "\n".join(f"    {kind:<17}{meaning}" for kind, meaning in KINDS.items())


@click.command(
    name="break",
    help=f"""Plant a fault of some KIND; it strikes --times times.

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
@click.option("--on", default="*", metavar="GLOB", help="Where it strikes: a glob over type, logical name or id.")
@click.option("--times", type=click.IntRange(0), default=1, show_default=True, help="How often; 0 until it is mended.")
@click.option("--zone", default="", help="Only in this zone.")
@click.option("--seconds", type=click.FloatRange(0), help="slow: by how much, 30 unless given; *-limit: 60.")
@click.option(
    "--message", default="", help="refuse, busy, quota, image: the error's text instead of the vendor's usual one."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="guest: a variable of the VM or the pod.")
def break_command(
    kind: str, on: str, times: int, zone: str, seconds: float | None, message: str, settings: tuple[str, ...]
) -> None:
    variables = dict(pair(one) for one in settings)
    for given, option, kinds in (
        (bool(variables), "--set", ("guest",)),
        (seconds is not None, "--seconds", tuple(DEFAULT_SECONDS)),
        (bool(message), "--message", ("refuse", "busy", "quota", "stockout", "image")),
    ):
        if given and kind not in kinds:
            raise click.UsageError(f"{option} goes with {' and '.join(kinds)}, not with {kind}")
    if kind == "guest" and not variables:
        raise click.UsageError("guest needs --set KEY=VALUE, such as --set GPU_SMOKE_DEVICE=cuda")
    waits = DEFAULT_SECONDS.get(kind, 0.0) if seconds is None else seconds
    fault = Fault(kind, on, times, zone, waits, message, variables)
    with open_world() as world:
        number = world.add_fault(fault)
    click.echo(f"planted fault {number}: {described(fault)}\n  mend it with: pulumi-sandbox world mend {number}")


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text}\n  expected: KEY=VALUE", param_hint="--set")
    return key, value


def described(fault: Fault) -> str:
    what = KINDS[fault.kind].replace("--seconds", f"{fault.seconds:g} s").replace(", with --message", "")
    where = "" if fault.on == "*" else f", on {fault.on}"
    place = f", in {fault.zone}" if fault.zone else ""
    often = {0: "always", 1: "once"}.get(fault.times, f"{fault.times} times")
    with_ = "".join(f", {key}={value}" for key, value in fault.settings.items())
    text = f", {json.dumps(fault.message)}" if fault.message else ""
    return f"{fault.kind} ({what}){where}{place}{with_}{text}, {often}"


@click.command(name="faults")
@click.option("--json", "wants_json", is_flag=True, help="JSON instead of a table.")
def faults_command(wants_json: bool) -> None:
    """List the planted faults."""
    with open_world() as world:
        found = world.faults()
    if wants_json:
        print_json([vars(fault) for fault in found])
    elif found:
        print_table(["FAULT", "WHAT"], ([str(fault.id), described(fault)] for fault in found))
    else:
        click.echo("no faults are planted")


@click.command(name="mend")
@click.argument("fault", type=int, required=False)
@click.option("--all", "every", is_flag=True, help="All of them.")
def mend_command(fault: int | None, every: bool) -> None:
    """Remove a FAULT, or --all."""
    if (fault is None) != every:
        raise click.UsageError("say which fault, or --all")
    with open_world() as world:
        gone = world.clear_faults(fault)
        known = [str(one.id) for one in world.faults()]
    if fault is not None and not gone:
        hint = f"there are {', '.join(known)}" if known else "none is planted"
        raise click.ClickException(f"world: fault {fault}: no such fault\n  hint: {hint}")
    click.echo(f"mended {gone} fault{'' if gone == 1 else 's'}" if gone else "no faults were planted")
