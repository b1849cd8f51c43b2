"""`gpu-ci check`: check stack files, or one machine type with options such as the zone and the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from gpu_catalog.setup import DRIVER_SOURCES

from gpu_ci.cli import options
from gpu_ci.cli.output import InputError

SOURCE = options.Name("driver source", lambda: DRIVER_SOURCES)


@click.command("check")
@click.argument("targets", metavar="[FILE... | MACHINE]", nargs=-1)
@click.option("--market", type=options.MARKET, help="The market, such as standard or spot.")
@click.option("--zone", metavar="PLACE", help="A zone or a region.")
@click.option("--boot-disk", metavar="TYPE", help="The type of the boot disk, such as pd-balanced.")
@click.option("--nic", metavar="TYPE", help="The type of the network interface, such as GVNIC.")
@click.option("--driver-source", type=SOURCE, help=f"One of {', '.join(DRIVER_SOURCES)}.")
@click.option(
    "--driver-branch",
    type=click.IntRange(min=1),
    metavar="N",
    help="NVIDIA's driver branch, such as 580; by default the branch of the driver source.",
)
@click.option("--kernel-module", type=click.Choice(["open", "proprietary"]), help="NVIDIA's kernel module.")
@click.option("--ami-type", metavar="TYPE", help="An EKS AMI type.")
@click.option("--torch", metavar="VERSION", help="The version of a torch wheel, such as 2.9.1+cu129.")
@click.option("--python", metavar="X.Y", help="The Python version of the wheel.")
@options.as_json
def command(targets: tuple[str, ...], as_json: bool, **choices: Any) -> None:
    """Check stack files or one machine type before a deployment.

    Without an argument, the command checks every Pulumi.<stack>.yaml in this folder: pools, clusters, quotas, site,
    GitHub, and provider secrets in plain text. The checks need no cloud. The preview runs the same checks.

    For a machine type, such as g2-standard-8, the command checks that it works with the given options.

    Values of Pulumi.yaml count as in the engine. Environments of Pulumi ESC are not read: a value that is missing
    without them is no problem here.

    A file without gpu-ci:site and gpu-ci:github belongs to a program that sets the project and the networks in code.
    The command then does not require them in the file.

    \b
    Examples:
      gpu-ci check
      gpu-ci check Pulumi.prod.yaml --json
      gpu-ci check g2-standard-8 --zone us-central1-a --market spot --driver-branch 535 --torch 2.9.1+cu129
      gpu-ci check p5.48xlarge --market capacity-block --ami-type AL2023_x86_64_NVIDIA
    """
    options_of_machine = {name: value for name, value in choices.items() if value is not None}
    if len(targets) == 1 and not _is_file(targets[0]):
        from gpu_ci.cli.check import machine

        machine.run(targets[0], options_of_machine, as_json)
        return
    if machines := [each for each in targets if not _is_file(each)]:
        raise InputError(
            f"gpu-ci check: {len(targets)} names are given, but a call checks one machine only",
            got=", ".join(targets),
            hint=f"gpu-ci check {machines[0]}",
        )
    if options_of_machine:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options_of_machine)
        raise InputError(
            f"gpu-ci check: {names}: this option is for a machine, not for stack files", hint="gpu-ci check --help"
        )
    from gpu_ci.cli.check import stacks

    stacks.run(targets, as_json)


def _is_file(target: str) -> bool:
    """Return True if an argument is the path of a file, False if it is a machine type such as gcp/g2-standard-8."""
    return (
        target.endswith((".yaml", ".yml"))
        or "/" in target.removeprefix("gcp/").removeprefix("aws/")
        or Path(target).exists()
    )
