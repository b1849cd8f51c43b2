"""Receipts of a real H100 and a real H200, as gpu-smoke wrote them on 2026-11-23."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_smoke import plan
from gpu_smoke.checks import Check
from gpu_smoke.data.gpus import GPUS, WARN
from gpu_smoke.judge import load, results, speed
from gpu_smoke.judge.nvml_samples import Samples, merged
from gpu_smoke.judge.subject import Subject

from ..paths import ROOT
from ..receipt_schema import faults_of

FOLDER = ROOT / "tests" / "smoke" / "receipts"


def receipt(model: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{model}.json").read_text())
    return found


@pytest.mark.parametrize("model", ["h100", "h200"])
def test_a_receipt_of_a_real_gpu_is_as_published(model: str) -> None:
    assert faults_of(receipt(model)) == []


@pytest.mark.parametrize("model", ["h100", "h200"])
def test_a_healthy_gpu_is_above_every_warning_with_a_margin(model: str) -> None:
    record = receipt(model)
    subject = Subject.of("cuda", record["gpus"][0])
    measured = {each["stage"]: each for each in record["measured"]}
    found = [*results.timed(subject, measured["gemm.speed"]), *speed.memory(subject, measured["mem.speed"])]
    assert [check.status for check in found] == ["pass", "pass"]
    # A floor that its own GPU barely reaches would warn of every other one.
    assert all(check.value * WARN >= check.warn_below for check in found), found


def judged(record: dict[str, Any]) -> dict[str, Check]:
    """Return the checks of today's judges on the speeds, the heat and the link of a receipt."""
    subject = Subject.of("cuda", record["gpus"][0])
    measured = {each["stage"]: each for each in record["measured"]}
    speeds = [
        *results.timed(subject, measured["gemm.speed"]),
        *speed.memory(subject, measured["mem.speed"]),
        *speed.host(subject, measured["copies"]),
    ]
    stages = {stage: seen(told) for stage, told in measured["nvml"]["stages"].items()}
    timed = merged(part for stage, part in stages.items() if stage in plan.TIMED)
    most = {"generation": 5, "width": 16, "replays": 0}  # what both GPUs and their slots can do
    heat = load.throttle(subject, stages, load.slow_stages(speeds, subject.index))
    link = load.pcie(subject, most, most, timed, measured["copies"]["h2d"], "")
    return {check.id: check for check in [*speeds, heat, link]}


def seen(told: dict[str, Any]) -> Samples:
    found = Samples(told["samples"], told["loaded"])
    found.reasons.update({int(reason, 16): count for reason, count in told["reasons"].items()})
    found.highest = {name: value for name, value in told.items() if isinstance(value, float | int)}
    return found


@pytest.mark.parametrize("model", ["h100", "h200"])
def test_the_receipt_of_a_healthy_gpu_has_no_fault(model: str) -> None:
    found = judged(receipt(model))
    assert {check.id: check.status for check in found.values()} == dict.fromkeys(
        ("gemm.speed", "mem.speed", "h2d", "d2h", "throttle", "pcie"), "pass"
    )


@pytest.mark.parametrize("model", ["h100", "h200"])
@pytest.mark.parametrize(
    ("stage", "planted", "bad"),
    [
        ("gemm.speed", {"tflops": 400.0}, {"gemm.speed"}),
        ("mem.speed", {"gbs": 1500.0}, {"mem.speed"}),
        ("nvml", {"width": 2, "generation": 5}, {"pcie"}),  # less than 16 lanes of generation 3
        ("nvml", {"width": 16, "generation": 3}, set()),  # as DCGM accepts it; h2d warns
        ("nvml", {"reasons": {"0x40": 9}}, set()),  # hot, and as fast as it should be
    ],
    ids=str,
)
def test_faults_inserted_into_the_receipt_of_a_healthy_gpu_are_found(
    model: str, stage: str, planted: dict[str, Any], bad: set[str]
) -> None:
    record = receipt(model)
    [told] = [each for each in record["measured"] if each["stage"] == stage]
    for part in told["stages"].values() if stage == "nvml" else [told]:
        part.update(planted)
    found = judged(record)
    assert {check.id for check in found.values() if check.status == "fail"} == bad
    if not bad:
        assert "warn" in (found["pcie"].status, found["throttle"].status)


def test_a_hot_gpu_that_is_slow_fails_for_both() -> None:
    record = receipt("h100")
    measured = {each["stage"]: each for each in record["measured"]}
    measured["gemm.speed"]["tflops"] = 610.0  # its floor warns below 619
    measured["nvml"]["stages"]["gemm.speed"]["reasons"] = {"0x40": 5}
    found = judged(record)
    assert (found["gemm.speed"].status, found["throttle"].status) == ("warn", "fail")


def test_limits_leave_room_above_what_real_gpus_compute() -> None:
    checks = [check for model in ("h100", "h200") for check in receipt(model)["checks"] if "fail_above" in check]
    shares = [check["value"] / check["fail_above"] for check in checks if check["id"] in ("gemm.norm", "gemm.element")]
    assert len(shares) == 12
    # An error of nothing would mean that the product was compared with itself.
    assert all(0.01 < share < 0.5 for share in shares), shares


def test_gpus_of_one_architecture_and_as_many_multiprocessors_compute_the_same_bits() -> None:
    bits = [[(each["dtype"], each["hash"]) for each in receipt(model)["products"]] for model in ("h100", "h200")]
    assert bits[0] == bits[1]
    assert len(set(bits[0])) == 3


def test_the_compared_products_give_every_multiprocessor_of_every_known_gpu_work() -> None:
    # Blocks of 256 x 128 elements, as cuBLAS 13 chose on the H100 and the H200.
    side = plan.SHAPES["cuda"].n
    assert side // 256 * (side // 128) >= max(gpu.sm for gpu in GPUS.values()) == 188
