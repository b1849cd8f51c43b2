"""`gpu-ci verify eks`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_ci.cli.output import InputError
from gpu_ci.cli.verify import eks
from gpu_ci.cli.verify.command import as_json, one_stack, output_option, verify
from gpu_ci.stack.clusters import CLUSTERS, of_kind


@click.command("eks")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@click.option("--cluster", "name", metavar="NAME", help="The cluster; required if the file has several clusters.")
@click.option("--context", default="", metavar="NAME", help="The context of kubectl; by default the current context.")
@output_option("eks")
@as_json
def command(files: tuple[str, ...], name: str | None, context: str, output: Path, as_json: bool) -> None:
    """Check that an EKS cluster and its AWS account are ready for the eks-runners of a stack file.

    The command runs `aws` and `kubectl` with your credentials. It checks identity, access mode, VPC CNI, quotas,
    service-linked roles, routes, node groups, Cluster Autoscaler and listeners.

    \b
    Examples:
      gpu-ci verify eks Pulumi.staging.yaml
      gpu-ci verify eks Pulumi.prod.yaml --cluster ci --context ci-admin
    """
    file = one_stack(files)
    described = {} if file.clusters else of_kind(file.value(CLUSTERS), "eks")
    if not described:
        raise InputError(
            f"{file.name}: describes no EKS cluster", expected=f"{CLUSTERS}", hint=f"gpu-ci check {file.name}"
        )
    if name is None and len(described) > 1:
        raise InputError(
            "gpu-ci verify eks: the file has several clusters", got=", ".join(described), hint="add --cluster NAME"
        )
    chosen = name or next(iter(described))
    if chosen not in described:
        raise InputError(f"gpu-ci verify eks: no cluster {chosen!r} in {file.name}", expected=", ".join(described))
    verify("eks", eks.STEPS, eks.target(file, chosen, context), output, as_json)
