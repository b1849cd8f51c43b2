"""The entry point of the program: creates the resources of a stack file in order, and exports the outputs."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, TypeVar

import pulumi

from gpu_ci import extras

from . import manager, pools, settings, stack_warnings
from .pools import Entry, with_runner_group
from .settings import Settings

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_network import RunnerNetwork

P = TypeVar("P", bound=Entry)


def deploy() -> None:
    """Create every resource that the stack file describes, and export the outputs.

    Call this function once in a Pulumi program. If the stack file is invalid, the function registers no resource, and
    ends the program with a report of every problem.

    Raises:
        pulumi.RunError: The package of a cloud that the stack file needs is not installed.
    """
    try:
        _deploy()
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        raise pulumi.RunError(f"the package {error.name} is not installed\n  hint: {hint}") from None


def _deploy() -> None:
    # After a failed resource, Pulumi's language host ends the program with SIGINT. Without this handler, Python would
    # print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    # The whole stack file is checked first. No resource is registered if the file has a problem.
    stack_settings = settings.load_or_exit()

    # One network for each region under `networks` of the site.
    made_networks = _networks(stack_settings)
    if made_networks:
        pulumi.export("networks", {region: made.state() for region, made in made_networks.items()})

    # The settings on GitHub. Pulumi's GitHub package is loaded only if the stack has such settings.
    group = None
    if stack_settings.github:
        from . import github

        github_facts = github.build(stack_settings.github, stack_settings.site)
        group = github_facts.get("runnerGroup")
        pulumi.export("github", github_facts)

    # The resources that the pools of a cluster share. Pulumi's AWS and Kubernetes packages are loaded only if needed.
    clustered, pipelines = list(stack_settings.pools), list(stack_settings.pipelines)
    if stack_settings.clusters:
        from . import clusters

        shared = clusters.build(stack_settings)
        clustered = [clusters.with_cluster(pool, shared) for pool in clustered]
        pipelines = clusters.pipelines_with_cluster(pipelines, stack_settings.clusters, shared)

    # One component for each pool, wired to the networks, the runner group and the clusters.
    built = pools.build(with_runner_group(_with_subnetwork(pool, made_networks), group) for pool in clustered)

    # One component for each image pipeline. No pool depends on a pipeline: a pool names a finished image.
    if pipelines:
        pulumi.export("images", pools.build_pipelines(_with_subnetwork(each, made_networks) for each in pipelines))

    # The outputs for users and programs (`pulumi stack output pools`).
    pulumi.export("pools", pools.facts(built))
    pulumi.export("smokeTargets", pools.smoke_targets(built))
    pulumi.export("cost", pools.stack_cost(built))
    for output, value in manager.build(stack_settings, built).items():
        pulumi.export(output, value)

    # Warnings, such as outdated prices and images. They are printed in updates, too, because `pulumi up --skip-preview`
    # has no preview.
    for text in stack_warnings.warnings(stack_settings, date.today()):
        pulumi.log.warn(text)
    # Prerequisites in the project that a preview cannot check. An update does not print them, because it fails without
    # them.
    for text in stack_warnings.prerequisites_of_builds(stack_settings) if pulumi.runtime.is_dry_run() else ():
        pulumi.log.info(text)


def _networks(settings: Settings) -> dict[str, RunnerNetwork]:
    """Create the networks, and return them by region."""
    if not settings.site.networks:
        return {}
    from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs  # loads Pulumi's Google package

    return {
        region: RunnerNetwork(
            f"runners-{region}", RunnerNetworkArgs(**dict(chosen), region=region, project=settings.project)
        )
        for region, chosen in sorted(settings.site.networks.items())
    }


def _with_subnetwork(pool: P, networks: Mapping[str, RunnerNetwork]) -> P:
    """Return the pool or pipeline with the created subnetworks of its region and of the regions of its ladder."""
    links = {region: network.subnetwork for region, network in networks.items()}
    # Nodes of a cluster are in its network. Their field subnetwork is not wiring.
    wiring = pool.args.wiring_of({"subnetwork": links.get(pool.region), "ladder_subnetworks": links})
    given = dict(pool.args)
    changed = {name: {**given[name], **new} if isinstance(new, dict) else new for name, new in wiring.items() if new}
    return replace(pool, args=pool.args.model_copy(update=changed)) if changed else pool
