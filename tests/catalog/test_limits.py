"""Quota limits in stack files and in the answers of the clouds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from gpu_catalog import limits
from gpu_catalog.limits import Limit, Mistake


def mistake_of(values: Any) -> Mistake:
    [mistake] = limits.from_mapping(values)[1]
    return mistake


def test_limits_are_read_by_region_and_metric() -> None:
    found, mistakes = limits.from_mapping(
        {
            "us-central1": {"NVIDIA_L4_GPUS": 4, "GPUS_PER_GPU_FAMILY": {"NVIDIA_H100": 8}},
            "us-east-1": {"L-DB2E81BA": 96},
            "global": {"GPUS_ALL_REGIONS": 12},
        }
    )
    assert mistakes == []
    assert found == {
        ("us-central1", "NVIDIA_L4_GPUS"): Limit(4),
        ("us-central1", "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_H100}"): Limit(8),
        ("us-east-1", "L-DB2E81BA"): Limit(96),
        ("global", "GPUS_ALL_REGIONS"): Limit(12),
    }


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ([], Mistake((), "must be a map", "a list", "limits by metric, for each region")),
        ({"us-central1": 4}, Mistake(("us-central1",), "must be a map", "4", "limits by metric")),
        (
            {"us-centrall": {}},
            Mistake(
                ("us-centrall",),
                "is not a region with a GPU",
                "'us-centrall'",
                "a region, or global",
                "did you mean us-central1?",
            ),
        ),
        (
            {"us-central1": {"NVIDIA_L4_GPU": 4}},
            Mistake(
                ("us-central1", "NVIDIA_L4_GPU"),
                "is not a quota that a machine with a GPU uses",
                "'NVIDIA_L4_GPU'",
                "a metric of a quota that machines with GPUs use",
                "did you mean NVIDIA_L4_GPUS?",
            ),
        ),
        (
            {"us-central1": {"GPUS_ALL_REGIONS": 4}},
            Mistake(
                ("us-central1", "GPUS_ALL_REGIONS"),
                "is a quota of all regions together",
                "under us-central1",
                "under global",
                "put it under global",
            ),
        ),
        (
            {"global": {"NVIDIA_L4_GPUS": 4}},
            Mistake(
                ("global", "NVIDIA_L4_GPUS"),
                "is a quota of each region",
                "under global",
                "under a region",
                "put it under the region it is for",
            ),
        ),
        (
            {"us-central1": {"GPUS_PER_GPU_FAMILY": 8}},
            Mistake(
                ("us-central1", "GPUS_PER_GPU_FAMILY"),
                "must be a map",
                "8",
                "limits by GPU family",
                "such as GPUS_PER_GPU_FAMILY: {NVIDIA_H100: 8}",
            ),
        ),
    ],
)
def test_a_machine_that_cannot_be_used_is_a_problem(values: Any, mistake: Mistake) -> None:
    assert mistake_of(values) == mistake


@pytest.mark.parametrize(
    ("metric", "limit", "got", "hint"),
    [
        ("NVIDIA_L4_GPUS", "4", "'4'", "write it without quotes: NVIDIA_L4_GPUS: 4"),
        ("NVIDIA_L4_GPUS", True, "True", "such as NVIDIA_L4_GPUS: 4"),
        ("NVIDIA_L4_GPUS", -1, "-1", "such as NVIDIA_L4_GPUS: 4"),
        ("NVIDIA_L4_GPUS", None, "nothing", "such as NVIDIA_L4_GPUS: 4"),
        ("NVIDIA_L4_GPUS", [4], "a list", "such as NVIDIA_L4_GPUS: 4"),
        ("NVIDIA_L4_GPUS", "4GB", "'4GB'", "such as NVIDIA_L4_GPUS: 4"),
        ("SSD_TOTAL_GB", "500GB", "'500GB'", "write it without a unit: SSD_TOTAL_GB: 500"),
        ("SSD_TOTAL_GB", "500 GiB", "'500 GiB'", "write it without a unit: SSD_TOTAL_GB: 500"),
        ("SSD_TOTAL_GB", "1TB", "'1TB'", "such as SSD_TOTAL_GB: 500"),
    ],
)
def test_a_limit_is_a_number(metric: str, limit: Any, got: str, hint: str) -> None:
    assert mistake_of({"us-central1": {metric: limit}}) == Mistake(
        ("us-central1", metric), "must be a number", got, "the limit that was granted, 0 or more", hint
    )


def test_a_limit_that_no_float_holds_is_too_large() -> None:
    assert mistake_of({"us-central1": {"NVIDIA_L4_GPUS": 10**400}}) == Mistake(
        ("us-central1", "NVIDIA_L4_GPUS"), "is too large", "more than 1e+308", "the limit that was granted, 0 or more"
    )


def test_one_mistake_does_not_hide_the_next_or_what_is_right() -> None:
    found, mistakes = limits.from_mapping({"here": {}, "us-central1": {"X": 1, "NVIDIA_T4_GPUS": 2}})
    assert [mistake.path for mistake in mistakes] == [("here",), ("us-central1", "X")]
    assert found == {("us-central1", "NVIDIA_T4_GPUS"): Limit(2)}


REGION = {
    "kind": "compute#region",
    "name": "us-central1",
    "quotas": [
        {"metric": "NVIDIA_L4_GPUS", "limit": 8.0, "usage": 3.0},
        {"metric": "INSTANCES", "limit": 24000.0, "usage": 5.0},
    ],
}


def test_the_answer_of_regions_get_is_read() -> None:
    assert limits.from_answer(REGION)["us-central1", "NVIDIA_L4_GPUS"] == Limit(8, 3)


def test_the_answer_of_regions_list_is_read() -> None:
    other = REGION | {"name": "us-east4"}
    found = limits.from_answer({"kind": "compute#regionList", "items": [REGION, other, {"name": "no-quotas"}]})
    assert {region for region, _ in found} == {"us-central1", "us-east4"}


def test_the_quotas_of_a_project_are_those_of_all_regions() -> None:
    answer = {"kind": "compute#project", "name": "acme-ci", "quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 1.0}]}
    assert limits.from_answer(answer) == {("global", "GPUS_ALL_REGIONS"): Limit(1)}


@pytest.mark.parametrize("around", [{}, {"name": "acme-ci"}])
def test_the_quotas_of_a_project_are_known_by_their_metrics_where_the_answer_was_cut(around: dict[str, str]) -> None:
    answer = around | {"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 1.0}]}
    assert limits.from_answer(answer) == {("global", "GPUS_ALL_REGIONS"): Limit(1)}


def test_the_quotas_of_a_region_that_the_answer_does_not_name_are_of_the_one_given() -> None:
    answer = {"quotas": REGION["quotas"]}
    assert limits.from_answer(answer, "us-east4")["us-east4", "NVIDIA_L4_GPUS"] == Limit(8, 3)
    for unnamed in (answer, {"items": [answer]}):
        with pytest.raises(ValueError, match="the answer does not name its region"):
            limits.from_answer(unnamed)


def test_the_answer_of_the_cloud_quotas_api_is_read_by_gpu_family() -> None:
    def row(value: str, **dimensions: str) -> dict[str, Any]:
        places = {"applicableLocations": ["us-central1", "us-east4"]}
        return {"dimensions": dimensions, "details": {"value": value}, **places}

    family = "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_H100}"
    answer = {
        "quotaInfos": [
            {
                "quotaId": "GPUS-PER-GPU-FAMILY-per-project-region",
                "dimensionsInfos": [
                    row("16", region="us-central1", gpu_family="NVIDIA_H100"),
                    row("0", gpu_family="NVIDIA_H100"),
                    row("5", gpu_family="NVIDIA_UNHEARD_OF"),
                ],
            },
            {"quotaId": "NVIDIA-L4-GPUS-per-project-region", "dimensionsInfos": [row("-1", region="us-east4")]},
            {"quotaId": "SOMETHING-ELSE", "dimensionsInfos": [row("5")]},
        ]
    }
    assert limits.from_answer(answer) == {
        ("us-central1", family): Limit(16),
        ("us-east4", family): Limit(0),
        ("us-east4", "NVIDIA_L4_GPUS"): Limit(math.inf),
    }


def test_the_answer_of_list_service_quotas_is_read_for_a_region() -> None:
    answer = {"Quotas": [{"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA", "Value": 64.0}]}
    assert limits.from_answer(answer, "us-east-1") == {("us-east-1", "L-DB2E81BA"): Limit(64)}
    with pytest.raises(ValueError, match="does not name its region"):
        limits.from_answer(answer)


def test_another_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="is not about quotas"):
        limits.from_answer({"error": {}})
