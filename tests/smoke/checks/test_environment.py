"""Faults of the environment: exit code 2, a helpful message, and never a pass."""

from __future__ import annotations

import pytest

from ..conftest import Smoke
from ..paths import ROOT

L4 = "NVIDIA L4"


def test_no_gpu_is_never_a_pass_and_the_drivers_message_is_kept(smoke: Smoke) -> None:
    run = smoke(gpus=[], refusal="Found no NVIDIA driver on your system. Please check\nsecond line")
    assert run.code == 2
    assert run.summary == "no CUDA device: Found no NVIDIA driver on your system. Please check"
    assert run.bad() == [("gpu.count", None)]
    assert run.receipt["action"] == "fix-driver"


def test_a_driver_that_is_too_old_is_known_from_a_mere_warning(smoke: Smoke) -> None:
    text = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12020)."
    run = smoke(gpus=[], warning=text)
    assert run.code == 2
    assert run.summary == f"no CUDA device: {text}"
    assert run.first_bad()["hint"] == "this torch needs a newer driver, or this driver a torch for an older CUDA"


def test_gpus_that_are_listed_but_do_not_start_are_no_pass(smoke: Smoke) -> None:
    run = smoke(refusal="CUDA unknown error - this may be due to an incorrectly set up environment")
    assert run.code == 2
    assert run.bad() == [("gpu.init", 0)]
    assert run.receipt["action"] == "reboot"
    assert "CUDA unknown error" in run.summary


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("No module named 'torch'", f"in this checkout: {ROOT}/.venv-torch/bin/gpu-smoke"),
        ("libcudart.so.13: cannot open shared object file", "the installation of torch is broken"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_an_environment_failure(smoke: Smoke, text: str, hint: str) -> None:
    run = smoke(**{"import": text})
    assert run.code == 2
    assert run.bad() == [("torch.import", 0)]
    assert run.summary == f"importing torch failed: {text}"
    assert run.first_bad()["hint"].startswith(hint)


@pytest.mark.parametrize(
    ("text", "code", "action"),
    [
        ("CUDA error: no kernel image is available for execution on the device", 2, "fix-image"),
        ("CUDA error: uncorrectable ECC error encountered", 1, "replace-node"),
        ("CUDA error: something nobody has seen yet", 1, "replace-node"),
    ],
)
def test_an_error_of_a_kernel_fails_the_check_gemm_run(smoke: Smoke, text: str, code: int, action: str) -> None:
    run = smoke(faults=[{"kind": "raise", "text": f"{text}\nCUDA kernel errors might be reported later"}])
    assert run.code == code
    assert run.bad() == [("gemm.run", 0)]
    assert run.summary == f"GPU 0: multiplying float32 matrices failed: {text}"
    assert run.receipt["action"] == action


def test_the_hint_of_a_torch_without_kernels_names_one_that_has_them(smoke: Smoke) -> None:
    run = smoke(gpus=[{"name": "Tesla V100-SXM2-16GB", "cc": "7.0"}], version="2.15.0+cu132")
    assert run.code == 2
    assert run.bad() == [("torch.arch", 0)]
    assert run.summary == (
        "torch 2.15.0+cu132 has no kernels for GPU 0 (Tesla V100-SXM2-16GB, 7.0): it has sm_75 sm_86"
    )
    assert run.first_bad()["hint"] == (
        "this torch has no kernels for this GPU: install one whose arch list has it; "
        "torch 2.14.0+cu126 on driver branch 580 runs on compute capability 7.0"
    )
    assert run.receipt["products"] == []
