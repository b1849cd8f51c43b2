"""`gpu-ci quota`: what pools take of each quota, and what answers about limits are read as."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu_ci.cli.conftest import Ask

Stack = Callable[..., str]


def test_quotas_are_printed_by_region_and_metric(ask: Ask, stack: Stack) -> None:
    answer = ask("quota", stack())
    assert (answer.code, answer.err) == (0, "")
    assert answer.rows == [
        ["global", "GPUS_ALL_REGIONS", "5 GPU", "unknown", "l4 5"],
        ["us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS", "5 GPU", "unknown", "l4 5"],
        ["us-central1", "SSD_TOTAL_GB", "500 GB", "unknown", "l4 500"],
    ]
    assert answer.out.splitlines()[-1] == "3 limits are unknown; hint: set gpu-ci:quotas, or use --limits"


def test_limits_that_were_looked_up_come_before_those_of_the_file(ask: Ask, stack: Stack, tmp_path: Path) -> None:
    quotas = "gpu-ci:quotas:\n    us-central1: {PREEMPTIBLE_NVIDIA_L4_GPUS: 3}\n  gpu-ci:pools:"
    name = stack(("gpu-ci:pools:", quotas))
    rows = [{"metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": 8, "usage": 2}, {"metric": "SSD_TOTAL_GB", "limit": 100}]
    (tmp_path / "region.json").write_text(json.dumps({"kind": "compute#region", "name": "us-central1", "quotas": rows}))
    answer = ask("quota", name, "--limits", "region.json")
    assert answer.code == 1
    assert answer.rows[1][3] == "8 (2 in use)"
    [found] = ask("quota", name, "--limits", "region.json", "--json").json
    assert [(each["metric"], each["given"]) for each in found["problems"]] == [("SSD_TOTAL_GB", 100)]


def test_a_region_without_an_answer_is_refused(ask: Ask, stack: Stack) -> None:
    answer = ask("quota", stack(), "--region", "us-east-1")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "gpu-ci quota: --region requires --limits\n  hint: add --limits ec2.json, or leave --region us-east-1 out\n"
    )


@pytest.mark.parametrize(
    ("text", "told", "found"),
    [
        (
            '{"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 9}]}',
            "has 1 of the 3 needed limits; limits in total: 1, all of global",
            1,
        ),
        (
            '{"name": "us-east4", "quotas": [{"metric": "SSD_TOTAL_GB", "limit": 9}]}',
            "has 0 of the 3 needed limits; limits in total: 1, all of us-east4",
            0,
        ),
        ("[]", "has 0 of the 3 needed limits; limits in total: 0", 0),
    ],
)
def test_the_number_of_limits_in_a_file_is_printed(
    ask: Ask, stack: Stack, tmp_path: Path, text: str, told: str, found: int
) -> None:
    (tmp_path / "limits.json").write_text(text)
    words = ("quota", stack(), "--limits", "limits.json")
    assert f"\nlimits.json: {told}\n" in ask(*words).out
    assert [each["needed"] for each in ask(*words, "--json").json[0]["answers"]] == [found]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "limits.json:1: is not JSON: Expecting property name enclosed in double quotes"),
        ("{}", "limits.json: is not an answer about quotas"),
        ("3", "limits.json: is not an answer about quotas"),
        ("[1]", "limits.json: is not an answer about quotas"),
        ('{"Quotas": []}', "limits.json: is not an answer about quotas"),
        (
            '{"name": "us-central1", "quotas": [{"metric": "NVIDIA_L4_GPUS", "limit": 1%s}]}' % ("0" * 400),
            "limits.json: is not an answer about quotas",
        ),
        (
            '{"name": "us-central1", "quotas": [{"metric": "NVIDIA_L4_GPUS", "limit": 9, "usage": 1%s}]}' % ("0" * 400),
            "limits.json: is not an answer about quotas",
        ),
    ],
)
def test_an_answer_that_is_none_ends_with_2(ask: Ask, stack: Stack, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "limits.json").write_text(text)
    answer = ask("quota", stack(), "--limits", "limits.json")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[0] == told
