"""The entry point of the program: creates the resources of a stack file in order, and exports the outputs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

import pulumi

from gpu_ci import extras
from gpu_ci.stack.parse import Stack

from . import manager, pools, stack_file, stack_warnings
from .pools import LateInputs

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_network import RunnerNetwork

    from .clusters import SharedCluster


def deploy() -> None:
    """Create every resource that the stack file describes, and export the outputs.

    Call this function once in a Pulumi program. If the stack file is invalid, the function registers no resource, and
    ends the program with a report of every problem.

    Raises:
        pulumi.RunError: The package of a cloud that the stack file needs is not installed.
    """
    try:
        _deploy()
    except stack_file.StackFileError as wrong:
        pulumi.log.error(str(wrong))
        sys.exit(32)  # with this code, Pulumi's language host adds no "unhandled error" below the report
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        raise pulumi.RunError(f"the package {error.name} is not installed\n  hint: {hint}") from None


def _deploy() -> None:
    # After a failed resource, Pulumi's language host ends the program with SIGINT. Without this handler, Python would
    # print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    # The whole stack file is checked first. No resource is registered if the file has a problem.
    stack = stack_file.load()

    # One network for each region under `networks` of the site.
    networks = _networks(stack)
    if networks:
        pulumi.export("networks", {region: network.state() for region, network in networks.items()})

    # The settings on GitHub. Pulumi's GitHub package is loaded only if the stack has such settings.
    group = at_github = None
    if stack.github or any(entry.access for entry in stack.notebooks.values()):
        from . import github

        github_facts, at_github = github.build(stack.github, stack.site)
        group = github_facts.get("runnerGroup")
        if stack.github:
            pulumi.export("github", github_facts)

    # The resources that the pools of a cluster share. Pulumi's AWS and Kubernetes packages are loaded only if needed.
    shared: Mapping[str, SharedCluster] = {}
    if stack.clusters:
        from . import clusters

        shared = clusters.build(stack)

    # One component for each pool, wired to the networks, the runner group and the clusters.
    late = LateInputs({region: network.subnetwork for region, network in networks.items()}, group, shared)
    built = pools.build(stack.specs, late, manager.names(stack.manager))

    # One component for each notebook pipeline, after the check of its pool.
    if stack.notebooks:
        from . import notebooks

        pulumi.export("notebooks", notebooks.build(stack, shared, built, at_github))

    # One component for each image pipeline. No pool depends on a pipeline: a pool names a finished image.
    if stack.pipelines:
        pulumi.export("images", pools.build_pipelines(stack.pipelines, late))

    # The outputs for users and programs (`pulumi stack output pools`).
    pulumi.export("pools", pools.facts(built))
    pulumi.export("smokeTargets", pools.smoke_targets(built))
    pulumi.export("cost", pools.stack_cost(built))
    for output, value in manager.build(stack, built).items():
        pulumi.export(output, value)

    # Warnings, such as outdated prices and images. They are printed in updates, too, because `pulumi up --skip-preview`
    # has no preview.
    for text in stack_warnings.warnings(stack, date.today()):
        pulumi.log.warn(text)
    # Prerequisites in the project that a preview cannot check. An update does not print them, because it fails without
    # them.
    for text in stack_warnings.prerequisites_of_builds(stack) if pulumi.runtime.is_dry_run() else ():
        pulumi.log.info(text)


def _networks(stack: Stack) -> dict[str, RunnerNetwork]:
    """Create the networks, and return them by region."""
    if not stack.site.networks:
        return {}
    from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs  # loads Pulumi's Google package

    return {
        region: RunnerNetwork(
            f"runners-{region}", RunnerNetworkArgs(**dict(chosen), region=region, project=stack.project)
        )
        for region, chosen in sorted(stack.site.networks.items())
    }
