"""Diagnosis by the driver's libraries: their errors, and a library that hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..conftest import ONE_GPU, environment
from .conftest import LIBRARY, POD, Diagnose


@pytest.mark.parametrize(
    ("code", "text"),
    [(802, "cuInit gave 802"), (803, "cuInit gave 803"), (804, "cuInit gave 804"), (34, "stub library")],
)
def test_a_driver_that_does_not_start_is_reported_and_torch_is_probed_too(
    diagnose: Diagnose, code: int, text: str
) -> None:
    said = diagnose(cuinit=code)
    assert (said.code, said.wrong()) == (2, ["libcuda.real"])
    assert text in said.record["summary"]
    assert said.one("torch.import")["message"] == "torch can be imported"


def test_device_nodes_that_the_containers_cgroup_lost_are_reported(diagnose: Diagnose, root: Path) -> None:
    (root / "dev/nvidia0").unlink()
    (root / "dev/nvidia0").mkdir()  # a folder cannot be opened for writing, even by root
    said = diagnose(nvml={"start": 999}, cuinit=999)
    assert (said.code, said.wrong()) == (2, ["devnodes", "nvml"])
    assert said.one("nvml")["message"] == "Failed to initialize NVML: Unknown Error (NVML 999)"
    assert "systemd is reloaded" in said.one("nvml")["hint"]


def test_a_library_of_another_version_is_reported_by_nvml_and_cuda(diagnose: Diagnose, root: Path) -> None:
    maps = root / "proc/self/maps"
    maps.write_text(maps.read_text().replace(LIBRARY, LIBRARY.replace("580.159.03", "580.95.05")))
    said = diagnose(nvml={"start": 18})
    assert (said.code, said.wrong()) == (2, ["nvml", "driver.match"])
    assert said.record["action"] == "reboot"


@pytest.mark.parametrize(
    ("used", "processes", "status", "code"),
    [(700_000_000, 0, "pass", 0), (3_000_000_000, 1, "warn", 0), (20_000_000_000, 2, "fail", 2)],
)
def test_memory_of_other_processes_is_reported(
    diagnose: Diagnose, used: int, processes: int, status: str, code: int
) -> None:
    said = diagnose(nvml={"gpus": [{"used": used, "processes": [[*range(4242, 4242 + processes)]]}]})
    assert (said.code, said.one("gpu.memory")["status"]) == (code, status)
    assert f"{used / 1e9:.3g} of 24 GB taken" in said.one("gpu.memory")["message"]


def test_mig_without_a_slice_fails_and_with_one_passes(diagnose: Diagnose) -> None:
    said = diagnose(nvml={"gpus": [{"mig": [1, 1]}]})
    assert (said.code, said.record["summary"]) == (2, "MIG is on for GPU 0, but it has no slice here")
    said = diagnose(nvml={"gpus": [{"mig": [1, 1], "slices": ["MIG-a", "MIG-b"]}]})
    assert (said.code, said.one("gpu.mig")["message"]) == (0, "on, 2 slices")


def test_a_gpu_that_is_lost_is_the_gpus_fault(diagnose: Diagnose) -> None:
    said = diagnose(nvml={"gpus": [{"refuse": {"nvmlDeviceGetHandleByIndex": 15}}, {}]})
    assert (said.code, said.record["summary"]) == (1, "GPU 0: GPU is lost (NVML 15)")


def test_a_driver_that_does_not_answer_is_reported_as_a_hang_in_time(diagnose: Diagnose) -> None:
    began = time.monotonic()
    said = diagnose("--deadline-sec", "3", nvml={"hang": "nvmlInit"})
    assert (said.code, said.wrong()) == (4, ["deadline"])
    assert said.record["summary"] == "no answer within 3 s while asking NVML"
    assert time.monotonic() - began < 30


def test_people_read_the_fault_first_with_the_next_command_and_the_summary_last(root: Path, tmp_path: Path) -> None:
    for node in (root / "dev").glob("nvidia*"):
        node.unlink()
    env = {**environment(gpus=ONE_GPU, cuinit=100), "GPU_SMOKE_ROOT": str(root), **POD}
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "diagnose", "--json", tmp_path / "found.json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (2, "")
    assert lines[0].startswith("fail  gpu.request: no GPU was given to this container")
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["looked at", "hint", "next"]
    assert lines[-1].startswith("gpu-smoke diagnose: no GPU was given to this container")
    assert json.loads((tmp_path / "found.json").read_text())["exit_code"] == 2
