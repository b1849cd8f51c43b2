"""Diagnosis by environment variables and by the installed torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import FAKES, ONE_GPU, ROOT, environment
from .conftest import POD, Diagnose, Said, put


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "'' is not one of 2 GPUs: CUDA sees no GPU"),
        ("-1", "'-1' is not one of 2 GPUs: CUDA sees no GPU"),
        ("void", "'void' is not one of 2 GPUs: CUDA sees no GPU"),
        ("2", "'2' is not one of 2 GPUs: CUDA sees no GPU"),
        ("1,7", "'7' is not one of 2 GPUs: CUDA sees the first 1 of them"),
        ("0,0", "which names 0 twice: CUDA then sees no GPU"),
        ("GPU-9f", "'GPU-9f' is not one of 2 GPUs: CUDA sees no GPU"),
    ],
)
def test_a_variable_that_hides_gpus_is_reported_with_the_rest(diagnose: Diagnose, given: str, why: str) -> None:
    said = diagnose(env={"CUDA_VISIBLE_DEVICES": given})
    assert (said.code, said.wrong()) == (2, ["env.visible"])
    assert said.record["summary"].endswith(why)


@pytest.mark.parametrize("given", ["0", "1,0", "GPU-0a", "GPU-1", "MIG-4a"])
def test_a_variable_that_names_existing_gpus_passes(diagnose: Diagnose, given: str) -> None:
    assert diagnose(env={"CUDA_VISIBLE_DEVICES": given}).code == 0


def test_a_container_without_the_capability_compute_is_reported(diagnose: Diagnose) -> None:
    said = diagnose(env={**POD, "NVIDIA_DRIVER_CAPABILITIES": "utility"}, cuinit="missing")
    assert (said.code, said.wrong()) == (2, ["env.capabilities", "libcuda.real"])


def test_a_stub_and_libraries_of_another_cuda_on_the_path_are_reported(diagnose: Diagnose, root: Path) -> None:
    put(root, "usr/local/cuda/lib64/stubs/libcuda.so", "")
    said = diagnose(env={"LD_LIBRARY_PATH": "/usr/lib:/usr/local/cuda/lib64/stubs"})
    assert (said.code, said.wrong()) == (2, ["env.library-path"])
    assert said.record["summary"] == "LD_LIBRARY_PATH has the stub of libcuda in /usr/local/cuda/lib64/stubs"
    put(root, "usr/local/cuda/lib64/libcublas.so.12", "")
    said = diagnose(env={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"})
    assert said.record["summary"] == (
        "LD_LIBRARY_PATH has libcublas.so.12 in /usr/local/cuda/lib64, and torch is for CUDA 13"
    )


@pytest.mark.parametrize(
    ("file", "env", "text"),
    [
        ("usr/local/cuda/compat/libcuda.so.1", {"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}, "compatibility package"),
        ("opt/lib/libcudnn.so.9", {"LD_LIBRARY_PATH": "/opt/lib"}, "CUDA libraries come from /opt/lib"),
        ("opt/x", {"LD_PRELOAD": "libvgpu.so"}, "LD_PRELOAD is 'libvgpu.so'"),
    ],
)
def test_libraries_that_may_come_before_those_of_torch_warn(
    diagnose: Diagnose, root: Path, file: str, env: dict[str, str], text: str
) -> None:
    put(root, file, "")
    # The loader says in every process that it cannot preload what is not there, so that one is read from files alone.
    said = diagnose(env=env) if "LD_PRELOAD" not in env else preloaded(root, env)
    assert (said.code, said.one("env.library-path")["status"]) == (0, "warn")
    assert text in said.one("env.library-path")["message"]


def preloaded(root: Path, env: dict[str, str]) -> Said:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "diagnose", "--json", "-"],
        env={**environment(gpus=ONE_GPU), "GPU_SMOKE_ROOT": str(root), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Said(done.returncode, json.loads(done.stdout))


def installed(tmp_path: Path, version: str, cuda: str) -> dict[str, str]:
    shutil.copytree(FAKES, tmp_path / "installed")
    (tmp_path / "installed/torch/version.py").write_text(f"__version__ = '{version}'\ncuda: str = '{cuda}'\n")
    return {"PYTHONPATH": f"{ROOT / 'smoke'}:{tmp_path / 'installed'}"}


def test_a_wheel_for_the_cpu_is_reported_also_if_it_cannot_be_imported(diagnose: Diagnose, tmp_path: Path) -> None:
    said = diagnose(env=installed(tmp_path, "2.15.0+cpu", ""), **{"import": "libgomp.so.1: cannot open shared object"})
    assert (said.code, said.wrong()) == (2, ["torch.installed", "torch.import"])
    assert said.one("torch.import")["message"] == "importing torch failed: libgomp.so.1: cannot open shared object"


def test_a_python_without_torch_is_a_warning_and_the_driver_is_probed_too(diagnose: Diagnose, tmp_path: Path) -> None:
    shutil.copytree(FAKES, tmp_path / "bare", ignore=shutil.ignore_patterns("torch"))
    said = diagnose(env={"PYTHONPATH": f"{ROOT / 'smoke'}:{tmp_path / 'bare'}"})
    assert (said.code, said.wrong()) == (0, [])
    assert said.one("torch.installed")["message"] == "this Python has no torch"
    assert (said.one("torch.import")["status"], said.one("libcuda.real")["status"]) == ("skip", "pass")


def test_cuda_that_lists_no_gpu_and_cuda_that_does_not_start_have_different_messages(diagnose: Diagnose) -> None:
    said = diagnose(gpus=[])
    assert (said.code, said.record["summary"]) == (2, "torch sees no GPU: CUDA starts and lists none")
    said = diagnose(refusal="CUDA unknown error - this may be due to an incorrectly set up environment")
    assert (said.code, said.wrong()) == (2, ["gpu.init"])
