"""Creates the networks of a stack: one network for each region under `networks` of gpu-ci:site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from .pools import Pool
from .settings import Settings

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_network import RunnerNetwork


P = TypeVar("P", bound=Pool)


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
    args: Any = pool.args
    made = networks.get(getattr(args, "region", ""))
    changed: dict[str, Any] = {}
    # Nodes of a cluster are in its network. Their field subnetwork is not wiring.
    if made and "subnetwork" in type(args).WIRING:
        changed["subnetwork"] = made.subnetwork
    if networks and "ladder_subnetworks" in type(args).model_fields:
        links = {region: network.subnetwork for region, network in networks.items()}
        changed["ladder_subnetworks"] = {**args.ladder_subnetworks, **links}
    return replace(pool, args=args.model_copy(update=changed)) if changed else pool


def facts(networks: Mapping[str, RunnerNetwork]) -> dict[str, Any]:
    """Return the outputs of the networks by region."""
    return {region: network.state() for region, network in networks.items()}
