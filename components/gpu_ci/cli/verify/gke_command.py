"""`gpu-ci verify gke`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_ci.cli.verify import gke, google
from gpu_ci.cli.verify.command import as_json, cluster_options, one_cluster, output_option, verify


@click.command("gke")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@cluster_options
@output_option("gke")
@as_json
def command(files: tuple[str, ...], name: str | None, context: str, output: Path, as_json: bool) -> None:
    """Check that a GKE cluster and its project are ready for the gke-runners of a stack file.

    The command asks Google with the credentials of Pulumi's provider, and runs `kubectl`. It checks APIs, permissions,
    gke-gcloud-auth-plugin, the cluster, network policies, machine types, quotas, Cloud NAT, node pools and listeners.

    \b
    Examples:
      gpu-ci verify gke Pulumi.staging.yaml
      gpu-ci verify gke Pulumi.prod.yaml --cluster gpu --context gpu-admin
    """
    file, chosen = one_cluster(files, "gke", name)
    verify("gke", gke.STEPS, gke.target(file, chosen, context, google.connect), output, as_json)
