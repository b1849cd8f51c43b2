"""A capacity ladder in a stack file: one report has all problems, each at its path."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_catalog.ladder import Rung as PlainRung
from gpu_catalog.ladder import default_ladder
from gpu_catalog.needs import Needs
from gpu_ci.capacity_ladder import CapacityLadder, JobNeeds
from gpu_ci.errors import ArgsError, report

L4 = {"machine": "g2-standard-8", "market": "spot", "region": "us-central1"}


def problems(**choices: Any) -> list[tuple[str, str]]:
    return [(found.path, found.text) for found in CapacityLadder.choice_problems(choices)]


def test_a_ladder_in_order_is_taken() -> None:
    ladder = CapacityLadder(
        rungs=[
            {**L4, "zones": ["us-central1-a", "us-central1-b"], "timeoutSec": 120},
            {**L4, "market": "standard"},
            {"machine": "g4-standard-48", "market": "spot", "region": "us-central1", "cloud": "gcp"},
            {"machine": "g6.2xlarge", "market": "spot", "region": "us-east-1"},
        ]
    )
    assert ladder.rungs[0].plain() == PlainRung(
        machine="g2-standard-8",
        market="spot",
        region="us-central1",
        zones=("us-central1-a", "us-central1-b"),
        timeout_sec=120,
    )
    assert ladder.rungs[1].timeout_sec == 300


def test_the_ladder_the_catalog_builds_is_taken() -> None:
    rungs = default_ladder("n1-standard-8+nvidia-tesla-t4x1", regions=["us-central1"])
    made = [{name: getattr(rung, name) for name in PlainRung.__slots__} for rung in rungs]
    ladder = CapacityLadder(rungs=[{**rung, "zones": list(rung["zones"])} for rung in made])
    assert tuple(rung.plain() for rung in ladder.rungs) == rungs


def test_a_rung_with_less_than_the_first_is_refused_with_a_hint() -> None:
    t4 = {"machine": "n1-standard-8+nvidia-tesla-t4x1", "market": "spot", "region": "us-central1"}
    found = CapacityLadder.choice_problems({"rungs": [L4, t4]})
    assert report("Pulumi.staging.yaml", [problem.under("gpu-ci:pools.l4") for problem in found]) == (
        "Pulumi.staging.yaml: gpu-ci:pools.l4.rungs[1].machine: gcp/n1-standard-8+nvidia-tesla-t4x1 has 16 GiB of GPU "
        "memory, not 24\n"
        "  got: 'n1-standard-8+nvidia-tesla-t4x1'\n"
        "  expected: a machine type, such as g2-standard-8; n1 with its GPUs, as n1-standard-8+nvidia-tesla-t4x1\n"
        "  hint: no rung may have less than the first, unless the ladder has needs\n"
        "Pulumi.staging.yaml: gpu-ci:pools.l4.rungs[1].machine: gcp/n1-standard-8+nvidia-tesla-t4x1 has compute "
        "capability 7.5, not 8.9\n"
        "  got: 'n1-standard-8+nvidia-tesla-t4x1'\n"
        "  expected: a machine type, such as g2-standard-8; n1 with its GPUs, as n1-standard-8+nvidia-tesla-t4x1\n"
        "  hint: no rung may have less than the first, unless the ladder has needs"
    )
    assert problems(rungs=[L4, t4], needs={"gpuMemoryGib": 16, "computeCapability": 7.5}) == []


def test_all_problems_are_reported_together_at_their_paths() -> None:
    assert problems(
        rungs=[
            {**L4, "zones": ["us-central1-a", "us-central1-f", "us-east1-b"]},
            {**L4, "zones": ["us-central1-a"]},
            {"machine": "a3-highgpu-1g", "market": "standard", "region": "us-central1"},
            {"machine": "g2-standart-8", "market": "spot", "region": "us-central1"},
        ]
    ) == [
        ("rungs[0].zones[2]", "us-east1-b is not in us-central1"),
        (
            "rungs[0].zones[1]",
            "us-central1-f has no gcp/g2-standard-8; us-central1-a, us-central1-b, us-central1-c have",
        ),
        ("rungs[1].zones[0]", "rung 1 already tries gcp/g2-standard-8 as spot in us-central1-a"),
        ("rungs[2].market", "gcp/a3-highgpu-1g is not sold as standard: only as spot, flex-start"),
        ("rungs[3].machine", "unknown machine type with a GPU 'g2-standart-8'"),
    ]


@pytest.mark.parametrize(
    ("choices", "path", "text"),
    [
        ({"rungs": []}, "rungs", "needs at least one"),
        ({}, "rungs", "is missing"),
        ({"rungs": [{**L4, "market": "sport"}]}, "rungs[0].market", "must be one of 'standard', 'spot', "),
        ({"rungs": [{**L4, "timeoutSec": 5}]}, "rungs[0].timeoutSec", "must be at least 10"),
        ({"rungs": [{**L4, "zone": "us-central1-a"}]}, "rungs[0].zone", "unknown key"),
        ({"rungs": [L4], "needs": {"dtype": "bf61"}}, "needs.dtype", "must be one of 'fp32', "),
        ({"rungs": [L4], "needs": {"computeCapability": "ada"}}, "needs.computeCapability", "has a form that"),
        (
            {"rungs": [L4], "needs": {"dtype": "fp4"}},
            "rungs[0].machine",
            "gcp/g2-standard-8 has compute capability 8.9",
        ),
        ({"rungs": [L4], "needs": {"budgetUsdPerHour": 0.1}}, "rungs[0]", "gcp/g2-standard-8 costs 0.5121 USD/h"),
    ],
)
def test_a_mistake_is_reported_at_its_place(choices: dict[str, Any], path: str, text: str) -> None:
    ((found_path, found_text),) = problems(**choices)
    assert found_path == path
    assert found_text.startswith(text)


def test_a_program_that_makes_a_wrong_ladder_hears_the_same() -> None:
    with pytest.raises(ArgsError, match=r"rungs\[0\].zones\[0\]: us-central1-f has no gcp/g2-standard-8"):
        CapacityLadder(rungs=[{**L4, "zones": ["us-central1-f"]}])


def test_the_needs_of_a_stack_file_are_the_catalogs() -> None:
    given = JobNeeds(gpuMemoryGib=24, computeCapability=8.9, dtype="fp8", vcpus=4.0)
    assert given.plain() == Needs(gpu_memory_gib=24, compute_capability="8.9", dtype="fp8", vcpus=4)
    assert set(JobNeeds.model_fields) == set(Needs.__slots__) - {"market", "cloud", "region"}
