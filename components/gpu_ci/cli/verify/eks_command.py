"""`gpu-ci verify eks`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_ci.cli.verify import eks
from gpu_ci.cli.verify.command import as_json, cluster_options, one_cluster, output_option, verify


@click.command("eks")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@cluster_options
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
    file, chosen = one_cluster(files, "eks", name)
    verify("eks", eks.STEPS, eks.target(file, chosen, context), output, as_json)
