"""The ladder of a runner pool: invalid steps, and the templates and checks of valid steps."""

from __future__ import annotations

from typing import Any

import gpu_catalog
from gpu_ci.errors import Problem
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from gpu_ci.stack import quotas

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

T4 = {"machineType": "n1-standard-8", "guestAccelerator": {"type": "nvidia-tesla-t4"}, "zones": ["us-central1-a"]}


def links(*regions: str) -> dict[str, str]:
    return {region: f"projects/example-ci/regions/{region}/subnetworks/s" for region in regions}


def choices(*rungs: Any, **changes: Any) -> dict[str, Any]:
    return {**RunnerPool.EXAMPLE, "ladder": list(rungs), **changes}


def args(*rungs: Any, **changes: Any) -> RunnerPoolArgs:
    wiring = {
        "project": "example-ci",
        "subnetwork": links("us-central1")["us-central1"],
        "ladderSubnetworks": links("us-east1", "us-east4", "us-west1"),
    }
    return RunnerPoolArgs(**wiring | choices(*rungs, **changes))


def problems(*rungs: Any, **changes: Any) -> list[Problem]:
    return RunnerPoolArgs.choice_problems(choices(*rungs, **changes))


def test_rungs_that_differ_in_market_machine_or_zone_are_in_order() -> None:
    rungs = (
        {"zones": ["us-central1-a"], "market": "standard"},
        {"region": "us-east1"},
        {"region": "us-east1", "machineType": "g2-standard-16"},
    )
    assert problems(*rungs) == []
    # A later GPU with as much memory does the work of an earlier one.
    assert problems({"zones": ["us-central1-a"], "machineType": "g2-standard-8"}, **T4) == []


def test_what_a_rung_leaves_out_is_as_the_pool_has_it() -> None:
    own, far, other = args(
        {"region": "us-east1"}, {"zones": ["us-central1-b"], "machineType": "n1-standard-4", "market": "standard"}, **T4
    ).rungs
    assert (far.machine_type, far.market, far.guest_accelerator) == ("n1-standard-8", "spot", own.guest_accelerator)
    assert far.zones == list(gpu_catalog.zones(own.machine, "us-east1"))
    assert len(far.zones) > 1
    assert far.subnetwork == links("us-east1")["us-east1"]
    assert (other.machine_type, other.market, other.guest_accelerator) == (
        "n1-standard-4",
        "standard",
        own.guest_accelerator,
    )
    assert other.subnetwork == own.subnetwork


def test_a_price_ceiling_below_every_machine_is_refused() -> None:
    [found] = problems({"region": "us-east1", "market": "standard"}, priceCeilingUsd=0.01)
    assert (found.path, found.text) == (
        "priceCeilingUsd",
        "is below the price of every machine of the pool, so no machine would start",
    )
    spot = {"region": "us-east1", "market": "spot"}
    assert problems(spot, market="standard", priceCeilingUsd=0.6) == []
    assert len(problems(market="standard", priceCeilingUsd=0.6)) == 1


def test_names_of_templates_fit_into_googles_limit() -> None:
    name = "a" * 40
    deployment = deploy(
        lambda: RunnerPool(name, args({"region": "us-east1"}, **T4)),  # type: ignore[arg-type,return-value]
        computed=COMPUTED,
    )
    # Pulumi adds a dash and seven characters.
    assert max(len(row.name) + 8 for row in deployment.of(":RegionInstanceTemplate")) <= 63


def test_a_pool_costs_at_most_what_its_dearest_rung_does() -> None:
    [alone] = quotas.cost_of([("l4", args())]).pools
    [climbing] = quotas.cost_of([("l4", args({"region": "us-east1", "market": "standard"}))]).pools
    assert alone.demand.market == "spot"
    assert (climbing.demand.market, climbing.demand.region) == ("standard", "us-east1")
    assert (climbing.usd_worst_month or 0) > (alone.usd_worst_month or 0)


def test_a_quota_that_is_short_for_a_rung_is_a_warning_and_no_mistake() -> None:
    pools = [("l4", args({"region": "us-east1"}))]
    given = {
        "us-central1": {"PREEMPTIBLE_NVIDIA_L4_GPUS": 5, "SSD_TOTAL_GB": 500},
        "us-east1": {"PREEMPTIBLE_NVIDIA_L4_GPUS": 1, "SSD_TOTAL_GB": 500},
        "global": {"GPUS_ALL_REGIONS": 5},
    }
    found, mistakes = quotas.check(given, quotas.demands(pools), "example-ci", quotas.ladder_demands(pools))
    assert mistakes == []
    [warning] = found.warnings
    assert warning.startswith(
        "gpu-ci:quotas.us-east1.PREEMPTIBLE_NVIDIA_L4_GPUS: may be less than the pools need: got 1, "
        "expected 5 GPUs or more (l4 5); hint: "
    )
