"""Results of a device, and the verdict on them."""

from __future__ import annotations

import pytest
from gpu_smoke.plan import HEALTH

from ..conftest import Smoke

TWO = [{"name": "NVIDIA L4"}, {"name": "NVIDIA L4"}]


def test_a_right_gpu_passes_and_the_summary_names_it(smoke: Smoke) -> None:
    run = smoke("--pool", "l4", "--expect-gpu", "NVIDIA L4", "--min-compute-capability", "8.9")
    assert run.code == 0
    assert run.summary == "l4: 1 x NVIDIA L4: float32, float16, bfloat16 products are right, and the same every time"
    assert run.message == run.summary + "\n"
    assert run.receipt["verdict"] == "pass"
    assert run.receipt["action"] == "none"
    assert {check["status"] for check in run.receipt["checks"] if check["id"] not in ("nvml", *HEALTH)} == {"pass"}


STANDARD = ("--profile", "standard")
RIGHT = "1 x NVIDIA L4: float32, float16, bfloat16 products are right, and the same every time"


@pytest.mark.parametrize("profile", [STANDARD, ("--profile", "burn", "--burn-sec", "0.1")], ids=lambda words: words[1])
def test_the_summary_of_a_pass_names_the_speeds_and_their_share_of_the_floor(
    smoke: Smoke, profile: tuple[str, ...]
) -> None:
    run = smoke(*profile, "--pool", "l4")
    assert run.code == 0
    # 51.21 TFLOPS and 211.5 GB/s are the speeds of an L4 below which it warns.
    assert run.summary == f"l4: {RIGHT}; 59.4 TFLOPS bfloat16 (116% of the floor); 250 GB/s (118% of the floor)"
    assert run.message == run.summary + "\n"


def test_every_gpu_is_made_to_compute_in_every_format(smoke: Smoke) -> None:
    run = smoke("--expect-gpus", "2", gpus=TWO)
    assert run.code == 0
    computed = sorted((product["gpu"], product["dtype"]) for product in run.receipt["products"])
    assert computed == [(gpu, dtype) for gpu in (0, 1) for dtype in ("bfloat16", "float16", "float32")]
    hashes = {(product["dtype"], product["hash"]) for product in run.receipt["products"]}
    assert len(hashes) == 3  # the same bits on both


def test_a_gpu_without_native_bfloat16_multiplies_no_bfloat16(smoke: Smoke) -> None:
    run = smoke("--expect-gpu", "nvidia-tesla-t4", gpus=[{"name": "Tesla T4", "cc": "7.5"}])
    assert run.code == 0
    assert run.summary == "1 x Tesla T4: float32, float16 products are right, and the same every time"


def test_one_wrong_element_is_a_gpu_fault_although_the_norm_does_not_see_it(smoke: Smoke) -> None:
    run = smoke(faults=[{"kind": "element", "by": 0.09, "dtype": "bfloat16"}])
    assert run.code == 1
    assert run.bad() == [("gemm.element", 0)]
    assert run.summary.startswith("GPU 0 gave a wrong bfloat16 product: worst element off by ")
    assert run.receipt["action"] == "replace-node"
    assert run.first_bad()["severity"] == "gpu"
    assert 0.06 < run.first_bad()["value"] < 0.12


def test_a_product_that_is_no_number_is_a_gpu_fault_and_the_receipt_stays_json(smoke: Smoke) -> None:
    run = smoke(faults=[{"kind": "value", "value": "nan", "dtype": "float32"}])
    assert run.code == 1
    assert ("gemm.finite", 0) in run.bad()
    assert ("gemm.element", 0) in run.bad()
    assert ("gemm.bitwise", 0) not in run.bad()  # the same NaN every time
    assert "NaN or infinity" in run.summary
    [product] = [p for p in run.receipt["products"] if p["dtype"] == "float32"]
    assert product["element_error"] is None


def test_on_the_cpu_the_same_code_runs_and_the_summary_denies_a_test_of_a_gpu(smoke: Smoke) -> None:
    run = smoke("--device", "cpu", "--expect-gpus", "8", "--expect-gpu", "H100")
    assert run.code == 0
    assert run.receipt["device"] == "cpu"
    assert run.receipt["gpus"] == []
    assert run.summary == "float32, float16, bfloat16 products are right on the CPU: tests the check, not a GPU"
    skipped = {check["id"] for check in run.receipt["checks"] if check["status"] == "skip"}
    assert skipped == {"gpu.count", "gpu.uuid", "gpu.name", "gpu.capability", "gpu.mig", "mem.total", "exclusive"}


def test_the_device_may_come_from_the_environment_and_the_command_line_wins(smoke: Smoke) -> None:
    assert smoke(env={"GPU_SMOKE_DEVICE": "cpu"}).receipt["device"] == "cpu"
    assert smoke("--device", "cuda", env={"GPU_SMOKE_DEVICE": "cpu"}).receipt["device"] == "cuda"
    assert smoke(env={"GPU_SMOKE_DEVICE": ""}).receipt["device"] == "cuda"
