"""Makes the networks a stack asks for: one for each region that has pools and no subnetwork of yours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs

from infra.pool import Pool
from infra.settings import Settings


def build(settings: Settings) -> dict[str, RunnerNetwork]:
    """By region."""
    return {
        region: RunnerNetwork(
            f"runners-{region}", RunnerNetworkArgs(**dict(chosen), region=region, project=settings.project)
        )
        for region, chosen in sorted(settings.site.networks.items())
    }


def with_subnetwork(pool: Pool, networks: Mapping[str, RunnerNetwork]) -> Pool:
    """The pool in the networks that are made for its region and those of its ladder, where they are."""
    args: Any = pool.args
    made = networks.get(getattr(args, "region", ""))
    changed: dict[str, Any] = {}
    if made and "subnetwork" in type(args).model_fields:
        changed["subnetwork"] = made.subnetwork
    if networks and "ladder_subnetworks" in type(args).model_fields:
        links = {region: network.subnetwork for region, network in networks.items()}
        changed["ladder_subnetworks"] = {**args.ladder_subnetworks, **links}
    return replace(pool, args=args.model_copy(update=changed)) if changed else pool


def facts(networks: Mapping[str, RunnerNetwork]) -> dict[str, Any]:
    """What came of them, by region."""
    return {region: network.state() for region, network in networks.items()}
