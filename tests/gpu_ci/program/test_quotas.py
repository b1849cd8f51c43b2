"""gpu-ci:quotas: the limits a stack file names, and pools that need more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.program.stack import L4, config, config_of, load, refused, told

HERE = "Pulumi.staging.yaml: gpu-ci:quotas"
PLENTY = {"PREEMPTIBLE_NVIDIA_L4_GPUS": 5, "SSD_TOTAL_GB": 500}


def quotas(pools: Any = None, everywhere: int = 5, **here: float) -> dict[str, Any]:
    given = {"us-central1": PLENTY | here, "global": {"GPUS_ALL_REGIONS": everywhere}}
    return config(pools, **{"gpu-ci:quotas": given})


def test_limits_that_suffice_are_accepted_with_one_machine_beside_max() -> None:
    found = load(quotas()).quotas
    assert found.given["us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS"].limit == 5
    assert found.findings == ()


def test_a_stack_file_need_name_no_limits() -> None:
    assert load(config()).quotas.given == {}


def test_a_limit_that_is_too_small_is_a_mistake_with_its_metric_and_the_way_to_ask_for_more() -> None:
    assert told(quotas(PREEMPTIBLE_NVIDIA_L4_GPUS=4)) == (
        f"{HERE}.us-central1.PREEMPTIBLE_NVIDIA_L4_GPUS: is less than the pools need\n"
        "  got: 4\n"
        "  expected: 5 GPUs or more (l4 5): max, and one machine for the check of a template\n"
        "  hint: IAM & Admin > Quotas & System Limits, filter PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region of "
        "us-central1: https://console.cloud.google.com/iam-admin/quotas?project=example-ci"
    )


def test_every_short_quota_is_reported_including_disks_and_all_regions() -> None:
    error = refused(quotas(everywhere=1, SSD_TOTAL_GB=100, PREEMPTIBLE_NVIDIA_L4_GPUS=1))
    assert [(problem.path, problem.got) for problem in error.problems] == [
        ("gpu-ci:quotas.global.GPUS_ALL_REGIONS", "1"),
        ("gpu-ci:quotas.us-central1.PREEMPTIBLE_NVIDIA_L4_GPUS", "1"),
        ("gpu-ci:quotas.us-central1.SSD_TOTAL_GB", "100"),
    ]


def test_shortages_join_the_one_report_of_mistakes_and_pools_with_mistakes_ask_for_nothing() -> None:
    pools = {"a": L4 | {"max": "four"}, "b": L4 | {"max": 5, "runnerLabels": ["b"]}}
    values = quotas(pools) | {"gpu-ci:site": None}
    error = refused(values)
    assert [problem.path for problem in error.problems] == [
        "gpu-ci:site.subnetworks.us-central1",
        "gpu-ci:pools.a.max",
        "gpu-ci:quotas.global.GPUS_ALL_REGIONS",
        "gpu-ci:quotas.us-central1.PREEMPTIBLE_NVIDIA_L4_GPUS",
        "gpu-ci:quotas.us-central1.SSD_TOTAL_GB",
    ]
    assert all(problem.hint for problem in error.problems)
    assert error.problems[2].expected.startswith("6 GPUs or more (b 6)")


def test_a_pool_whose_name_is_the_beginning_of_one_with_a_mistake_still_counts() -> None:
    pools = {"l4": L4, "l4-b": L4 | {"max": 0}}
    paths = [problem.path for problem in refused(quotas(pools, everywhere=4)).problems]
    assert paths == ["gpu-ci:pools.l4-b.max", "gpu-ci:quotas.global.GPUS_ALL_REGIONS"]


@pytest.mark.parametrize(
    ("values", "path", "text"),
    [
        ([], "gpu-ci:quotas", "must be a map"),
        ({"us-central1": 4}, "gpu-ci:quotas.us-central1", "must be a map"),
        ({"us-central1": {"NVIDIA_L4": 4}}, "gpu-ci:quotas.us-central1.NVIDIA_L4", "is not a quota that a machine"),
        ({"us-central1": {"NVIDIA_L4_GPUS": "4"}}, "gpu-ci:quotas.us-central1.NVIDIA_L4_GPUS", "must be a number"),
        ({"us-centrall": {}}, "gpu-ci:quotas.us-centrall", "is not a region with a GPU"),
    ],
)
def test_what_is_no_limit_is_a_mistake_with_a_hint(values: Any, path: str, text: str) -> None:
    [problem] = refused(config(**{"gpu-ci:quotas": values})).problems
    assert problem.path == path
    assert problem.text.startswith(text)
    assert problem.hint


def test_quotas_that_are_a_secret_are_refused() -> None:
    assert "gpu-ci:quotas: is a secret, but " in told(quotas(), secrets=["gpu-ci:quotas"])


def test_the_key_is_proposed_to_whoever_mistypes_it() -> None:
    assert told(config(**{"gpu-ci:quota": {}})).endswith("hint: did you mean gpu-ci:quotas")


def test_the_limits_of_the_shipped_stack_suffice_for_its_pools_and_name_every_quota() -> None:
    found = load(config_of("Pulumi.prod.yaml")).quotas
    assert found.given
    assert [finding.need.metric for finding in found.findings] == []
