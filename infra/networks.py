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
    """The pool in the network that is made for its region, where one is."""
    made = networks.get(getattr(pool.args, "region", ""))
    if made is None or "subnetwork" not in type(pool.args).model_fields:
        return pool
    return replace(pool, args=pool.args.model_copy(update={"subnetwork": made.subnetwork}))


def facts(networks: Mapping[str, RunnerNetwork]) -> dict[str, Any]:
    """What came of them, by region."""
    return {region: network.state() for region, network in networks.items()}
