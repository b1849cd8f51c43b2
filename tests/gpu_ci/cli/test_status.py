"""`gpu-ci status`: what stands in a stack's outputs, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_ci.cli.conftest import Ask

OUTPUTS: dict[str, Any] = {
    "pools": {
        "l4": {
            "kind": "gce-runners",
            "machineType": "g2-standard-24",
            "market": "spot",
            "max": 4,
            "cost": {"usdPerHourAtMax": 2.0484},
            "verdict": "pass",
            "smokeSummary": "l4: 2 x NVIDIA L4 compute",
        },
        "h100": {
            "kind": "gce-runners",
            "machineType": "a3-highgpu-1g",
            "market": "flex-start",
            "max": 1,
            "cost": {"usdPerHourAtMax": "unknown"},
            "verdict": "unproven",
            "smokeSummary": "no zone had a machine for the check",
        },
        "builds": {"kind": "cloud-build", "machineType": "e2-standard-2", "cost": {"usdPerHourAtMax": "unknown"}},
    },
    "smokeTargets": [
        {"pool": "l4", "gpu": "NVIDIA L4", "gpuCount": 2},
        {"pool": "h100", "gpu": "NVIDIA H100", "gpuCount": 1},
    ],
    "cost": {"summary": "0.00 USD/h at rest"},
}


@pytest.fixture
def outputs(tmp_path: Path) -> str:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(OUTPUTS))
    return str(file)


def test_the_pools_are_a_table_with_the_summaries_of_the_checks_below(ask: Ask, outputs: str) -> None:
    answer = ask("status", outputs)
    assert answer.code == 0
    heading, _, builds, h100, l4, _, *said = answer.out.splitlines()
    assert heading.split() == ["pool", "kind", "machine", "GPU", "market", "max", "USD/h", "at", "max", "verdict"]
    assert builds.split() == ["builds", "cloud-build", "e2-standard-2", "unknown"]
    assert h100.split() == [
        "h100", "gce-runners", "a3-highgpu-1g", "1", "x", "NVIDIA", "H100", "flex-start", "1", "unknown", "unproven",
    ]  # fmt: skip
    assert l4.split()[-4:] == ["spot", "4", "2.05", "pass"]
    assert said == [
        "h100: no zone had a machine for the check",
        "l4: 2 x NVIDIA L4 compute",
        "cost: 0.00 USD/h at rest",
    ]


def test_a_script_gets_the_same(ask: Ask, outputs: str) -> None:
    found = ask("status", outputs, "--json").json
    assert [pool["pool"] for pool in found["pools"]] == ["builds", "h100", "l4"]
    assert found["pools"][2] == {
        "pool": "l4",
        "kind": "gce-runners",
        "machine": "g2-standard-24",
        "gpu": "2 x NVIDIA L4",
        "market": "spot",
        "max": 4,
        "usdPerHourAtMax": 2.0484,
        "verdict": "pass",
        "said": "l4: 2 x NVIDIA L4 compute",
    }
    assert found["cost"] == "0.00 USD/h at rest"


def test_the_pools_that_register_runners_are_a_matrix_for_github(ask: Ask, tmp_path: Path) -> None:
    pools = {
        "l4": {"registersRunners": True, "runnerLabels": ["self-hosted", "gpu", "l4"]},
        "t4": {"registersRunners": False, "runnerLabels": ["t4"]},
        "a10g": {"scaleSetName": "big"},
        "builds": {"kind": "cloud-build"},
    }
    (tmp_path / "outputs.json").write_text(json.dumps({"pools": pools}))
    assert json.loads(ask("status", "outputs.json", "--runners").out) == [
        {"name": "a10g", "labels": ["big"]},
        {"name": "l4", "labels": ["self-hosted", "gpu", "l4"]},
    ]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"pools": []}', '{"pools": {"l4": 1}}'])
def test_an_input_without_pools_is_refused_with_the_right_command(ask: Ask, tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    answer = ask("status", str(file))
    assert answer.code == 2
    assert "not the outputs of a stack with pools" in answer.err
    assert "pulumi stack output --stack staging --json | gpu-ci status" in answer.err


def test_a_pool_of_several_types_costs_from_all_of_the_cheapest_to_all_of_the_dearest(ask: Ask, tmp_path: Path) -> None:
    def price(cost: dict[str, Any]) -> str:
        file = tmp_path / "outputs.json"
        pool = {"instanceTypes": ["g5.2xlarge", "g5.4xlarge", "g5.8xlarge"], "max": 2, "cost": cost}
        file.write_text(json.dumps({"pools": {"a10g": pool}}))
        return ask("status", str(file)).out.splitlines()[2].partition("(+2)")[2].strip()

    each = {"g5.2xlarge": 0.5, "g5.8xlarge": 1.25, "g5.4xlarge": "unknown"}
    assert price({"usdPerHourAtMax": 2.5, "usdPerHourByType": each}) == "2   1.00 to 2.50"
    assert price({"usdPerHourAtMax": 2.5, "usdPerHourByType": {"g5.2xlarge": 1.25}}) == "2           2.50"
    assert price({"usdPerHourAtMax": "unknown", "usdPerHourByType": each}) == "2        unknown"


def test_old_prices_are_one_note_below_the_sum(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    dates = {"old": "2025-06-28", "new": "2026-11-01", "no-day": "undated", "none": "unknown"}
    pools = {name: {"cost": {"priceDate": day}} for name, day in dates.items()}
    file.write_text(json.dumps({"pools": {**pools, "builds": {}}}))
    notes = [line for line in ask("status", str(file)).out.splitlines() if line.startswith("note: ")]
    old = "prices older than 90 days: old (2025-06-28); without a date: no-day"
    assert notes == [f"note: {old}; compare them with the cloud's price list"]
    assert "note: " not in ask("status", str(file), "--no-notes").out
