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
    paths = [problem.path for problem in refused(quotas(pools, everywhere=3)).problems]
    assert paths == ["gpu-ci:pools.l4-b.max", "gpu-ci:quotas.global.GPUS_ALL_REGIONS"]


def test_a_limit_that_lacks_only_the_machine_of_a_check_is_a_warning() -> None:
    gpus = {"guestAccelerator": {"type": "nvidia-tesla-t4"}, "market": "standard", "max": 1}
    t4 = {**L4, "machineType": "n1-standard-4", **gpus}
    here = {"NVIDIA_T4_GPUS": 1, "SSD_TOTAL_GB": 500}
    found = load(config({"t4": t4}, **{"gpu-ci:quotas": {"us-central1": here, "global": {"GPUS_ALL_REGIONS": 1}}}))
    short = {(each.need.metric, each.certain, each.only_for_checks) for each in found.quotas.findings}
    assert short == {("NVIDIA_T4_GPUS", False, True), ("GPUS_ALL_REGIONS", False, True)}
    assert "check of a template" in found.quotas.warnings[0]
    paths = [each.path for each in refused(quotas({"t4": t4}, everywhere=0, NVIDIA_T4_GPUS=1)).problems]
    assert paths == ["gpu-ci:quotas.global.GPUS_ALL_REGIONS"]


def test_the_limits_of_the_shipped_stack_suffice_for_its_pools_and_name_every_quota() -> None:
    found = load(config_of("Pulumi.prod.yaml")).quotas
    assert found.given
    assert [finding.need.metric for finding in found.findings] == []
