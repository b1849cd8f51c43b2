"""The real torch, on the CPU: the same code that runs on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT


def run(python: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "smoke"), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([python, *args], env=environment, capture_output=True, text=True, check=False, timeout=200)


def test_real_torch_passes_on_the_cpu_with_room_below_every_limit(torch_python: Path) -> None:
    done = run(torch_python, "-m", "gpu_smoke", "--device", "cpu", "--json", "-", "--deadline-sec", "180")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["summary"].endswith("on the CPU: tests the check, not a GPU")
    assert [product["dtype"] for product in receipt["products"]] == ["float32", "float16", "bfloat16"]
    limited = [check for check in receipt["checks"] if "fail_above" in check]
    assert [check["id"] for check in limited] == ["gemm.norm", "gemm.element"] * 3 + ["cudnn.conv", "train"]
    # Rounding shows: an error of nothing would mean that the product was compared with itself.
    assert all(0.001 < check["value"] / check["fail_above"] < 0.5 for check in limited), limited


def test_real_torch_without_a_gpu_is_refused_with_cudas_message(torch_python: Path) -> None:
    done = run(torch_python, "-m", "gpu_smoke", "--device", "cuda", "--deadline-sec", "180")
    assert done.returncode == 2
    assert "CUDA" in done.stderr.splitlines()[-1]


INPUTS = """\
import torch
from gpu_smoke import plan
from gpu_smoke.measure import gemm
pair = gemm._pair(torch, plan.SHAPES["cuda"], "float32")
print(*(gemm._digest(each) for each in pair))
"""


@pytest.mark.slow
def test_products_have_the_same_inputs_on_every_cpu(torch_python: Path) -> None:
    # On a CPU with AVX2 torch.randn gives other numbers than on one without; so would this, had it been used.
    found = set()
    for capability in ({}, {"ATEN_CPU_CAPABILITY": "default"}):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "smoke"), **capability}
        found.add(subprocess.check_output([torch_python, "-c", INPUTS], env=environment, text=True, timeout=100))
    # Seen so on x86-64; machines of one pool compare their products, and a pool may have both kinds of CPU.
    assert found == {"271a341960da8de3 cf418a73a2361cea\n"}


# One bit of one element, flipped in what a real matrix product gives; bit 8 of a bfloat16 belongs to its exponent.
FLIP = """\
import json, torch
from gpu_smoke.judge.results import product as judge
from gpu_smoke.judge.subject import Subject
from gpu_smoke.measure import gemm, setup
real, count = torch.Tensor.__matmul__, 0
def sick(self, other):
    global count
    count += 1
    result = real(self, other)
    if self.dtype is not torch.float64 and (not ONCE or count == 5):
        result.view({2: torch.int16, 4: torch.int32}[result.element_size()])[3, 4] ^= 1 << BIT
    return result
out = {}
for ONCE, BIT in ((False, 8), (True, 0)):
    for dtype in ("float16", "bfloat16"):
        count = 0
        torch.Tensor.__matmul__ = sick
        loaded = setup.load("cpu")
        measured = gemm.product(loaded, setup.target(loaded, "cpu", 0), dtype)
        torch.Tensor.__matmul__ = real
        judged = judge(Subject(None, "CPU"), measured)
        out[f"{dtype} {BIT}"] = [check.id for check in judged if check.status == "fail"]
print(json.dumps(out))
"""


@pytest.mark.slow
def test_one_flipped_bit_in_a_real_product_is_detected(torch_python: Path) -> None:
    done = run(torch_python, "-c", FLIP)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    # Flipped in every product, it repeats, so only the reference shows it; flipped in one, only the bits do.
    assert "gemm.element" in seen["bfloat16 8"]
    assert "gemm.element" in seen["float16 8"]
    assert "gemm.bitwise" not in seen["bfloat16 8"]
    assert seen["bfloat16 0"] == ["gemm.bitwise"]
    assert seen["float16 0"] == ["gemm.bitwise"]
