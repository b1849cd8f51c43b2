"""gpu-ci:quotas: the limits a stack file names, and pools that need more."""

from __future__ import annotations

from typing import Any

from tests.gpu_ci.program.stack import L4, config, config_of, load, refused

PLENTY = {"PREEMPTIBLE_NVIDIA_L4_GPUS": 5, "SSD_TOTAL_GB": 500}


def quotas(pools: Any = None, everywhere: int = 5, **here: float) -> dict[str, Any]:
    given = {"us-central1": PLENTY | here, "global": {"GPUS_ALL_REGIONS": everywhere}}
    return config(pools, **{"gpu-ci:quotas": given})


def test_limits_that_suffice_are_accepted_with_one_machine_beside_max() -> None:
    found = load(quotas()).quotas
    assert found.given["us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS"].limit == 5
    assert found.findings == ()


def test_a_pool_whose_name_is_the_beginning_of_one_with_a_mistake_still_counts() -> None:
    pools = {"l4": L4, "l4-b": L4 | {"max": 0}}
    paths = [problem.path for problem in refused(quotas(pools, everywhere=4)).problems]
    assert paths == ["gpu-ci:pools.l4-b.max", "gpu-ci:quotas.global.GPUS_ALL_REGIONS"]


def test_the_limits_of_the_shipped_stack_suffice_for_its_pools_and_name_every_quota() -> None:
    found = load(config_of("Pulumi.prod.yaml")).quotas
    assert found.given
    assert [finding.need.metric for finding in found.findings] == []
