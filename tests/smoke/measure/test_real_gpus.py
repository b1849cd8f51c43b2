"""What real GPUs answered: receipts of an H100 and an H200, as gpu-smoke wrote them on 2026-11-23."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_smoke import plan
from gpu_smoke.data.gpus import GPUS, WARN
from gpu_smoke.history.receipts import runs
from gpu_smoke.judge import gemm, transfer
from gpu_smoke.judge.subject import Subject

from ..paths import ROOT
from ..receipt_schema import faults_of

FOLDER = ROOT / "tests" / "smoke" / "receipts"


def receipt(model: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{model}.json").read_text())
    return found


@pytest.mark.parametrize("model", ["h100", "h200"])
def test_a_receipt_of_a_real_gpu_is_as_published_and_read_by_its_readers(model: str) -> None:
    assert faults_of(receipt(model)) == []
    [run], problems = runs([str(FOLDER / f"{model}.json")])
    assert problems == []
    assert (len(run.speeds), len(run.products), run.passed) == (2, 3, True)


@pytest.mark.parametrize("model", ["h100", "h200"])
def test_a_healthy_gpu_is_above_every_warning_with_a_margin(model: str) -> None:
    record = receipt(model)
    subject = Subject.of("cuda", record["gpus"][0])
    measured = {each["stage"]: each for each in record["measured"]}
    found = [*gemm.timed(subject, measured["gemm.speed"]), *transfer.memory(subject, measured["mem.speed"])]
    assert [check.status for check in found] == ["pass", "pass"]
    # A floor that its own GPU barely reaches would warn of every other one.
    assert all(check.value * WARN >= check.warn_below for check in found), found


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
