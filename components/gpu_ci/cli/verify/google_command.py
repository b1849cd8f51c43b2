"""`gpu-ci verify google`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_ci.cli.output import InputError
from gpu_ci.cli.verify import google
from gpu_ci.cli.verify.command import as_json, one_stack, output_option, verify


@click.command("google")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@output_option("google")
@as_json
def command(files: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Check that a Google Cloud project is ready for the gce-runners of a stack file.

    The command uses the same credentials as the smoke gate. It checks APIs, permissions, organization policies, machine
    types, quotas, images, subnetworks, the secrets with the keys of the GitHub Apps, and VMs that an interrupted check
    left.

    \b
    Examples:
      gpu-ci verify google Pulumi.staging.yaml
      gpu-ci verify google Pulumi.prod.yaml --json --output answers.md
    """
    file = one_stack(files)
    target = google.target(file, google.connect)
    if not target.pools:
        raise InputError(f"{file.name}: has no pool on Compute Engine", expected="a pool of kind gce-runners")
    verify("google", google.STEPS, target, output, as_json)
