"""Creates the networks of a stack: one network for each region under `networks` of gpu-ci:site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from .pools import Entry
from .settings import Settings

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_network import RunnerNetwork


P = TypeVar("P", bound=Entry)


def build(settings: Settings) -> dict[str, RunnerNetwork]:
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


def with_subnetwork(pool: P, networks: Mapping[str, RunnerNetwork]) -> P:
    """Return the pool or pipeline with the created subnetworks of its region and of the regions of its ladder."""
    links = {region: network.subnetwork for region, network in networks.items()}
    # Nodes of a cluster are in its network. Their field subnetwork is not wiring.
    wiring = pool.args.wiring_of({"subnetwork": links.get(pool.region), "ladder_subnetworks": links})
    given = dict(pool.args)
    changed = {name: {**given[name], **new} if isinstance(new, dict) else new for name, new in wiring.items() if new}
    return replace(pool, args=pool.args.model_copy(update=changed)) if changed else pool


def facts(networks: Mapping[str, RunnerNetwork]) -> dict[str, Any]:
    """Return the outputs of the networks by region."""
    return {region: network.state() for region, network in networks.items()}
