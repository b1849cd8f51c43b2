"""The worker that monitors NVML: a machine without NVML, a worker that hangs, and one that dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_smoke.plan import HEALTH

from ..checks.test_nvml_health import found, statuses
from ..conftest import Smoke
from .test_hangs import start

MISSING = (
    "libnvidia-ml.so.1 is missing: in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a machine "
    "install the driver's own packages"
)
PATIENCE = (
    "import sys; from gpu_smoke import __main__; from gpu_smoke.workers import nvml_monitor; "
    "nvml_monitor.HOLD_SEC = {hold}; nvml_monitor.SILENT_SEC = {silent}; nvml_monitor.END_SEC = {end}; "
    "sys.exit(__main__.main())"
)


def watched(
    tmp_path: Path, nvml: dict[str, Any], hold: float = 10, silent: float = 20, end: float = 10, **fake: Any
) -> Any:
    """Return the receipt of a run that waits so long for the monitor."""
    program = PATIENCE.format(hold=hold, silent=silent, end=end)
    lines = f"import os; os.environ['FAKE_NVML'] = {json.dumps(nvml)!r}; "
    parent = start(tmp_path, ["-c", lines + program], deadline="100", **fake)
    _, stderr = parent.communicate(timeout=120)
    assert "Traceback" not in stderr, stderr
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert parent.returncode == receipt["exit_code"]
    return receipt


def bad(receipt: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(c["id"], c.get("gpu")) for c in receipt["checks"] if c["status"] in ("fail", "error")]


def test_without_the_library_the_checks_of_nvml_are_skipped_with_a_hint(smoke: Smoke) -> None:
    run = smoke()
    assert run.code == 0
    assert set(statuses(run, None).values()) == {"skip"}
    assert {found(run, what, None)["message"] for what in ("nvml", *HEALTH)} == {MISSING}


@pytest.mark.parametrize(
    ("code", "exit_code", "status", "message"),
    [
        (12, 0, "skip", MISSING),
        (999, 0, "warn", "NVML does not start: Unknown Error"),
        (9, 2, "fail", "NVML does not start: Driver Not Loaded"),
        (18, 2, "fail", "NVML does not start: Driver/library version mismatch"),
    ],
)
def test_an_nvml_that_does_not_start_is_reported_with_its_error(
    smoke_either_way: Smoke, tmp_path: Path, code: int, exit_code: int, status: str, message: str
) -> None:
    imports = tmp_path / "imports"
    run = smoke_either_way(nvml={"start": code}, env={"FAKE_TORCH_IMPORTS": str(imports)})
    assert run.code == exit_code
    assert (found(run, "nvml", None)["status"], found(run, "nvml", None)["message"]) == (status, message)
    if status == "fail":
        assert run.bad() == [("nvml", None)]
    assert imports.exists() is (exit_code == 0)  # what cannot work is not tried


@pytest.mark.slow
def test_an_nvml_that_hangs_at_its_start_is_a_hang_and_holds_the_others_up_for_a_moment_only(tmp_path: Path) -> None:
    receipt = watched(tmp_path, {"hang": "nvmlInit"}, hold=0.5, end=0.5)
    assert receipt["exit_code"] == 4
    assert bad(receipt) == [("deadline", None)]
    assert receipt["summary"] == "no answer within 0.5 s while asking NVML for the last time"
    assert receipt["action"] == "reboot"
    assert [product["dtype"] for product in receipt["products"]] == ["float32", "float16", "bfloat16"]
    assert receipt["seconds"] < 60


@pytest.mark.slow
def test_a_package_that_takes_for_ever_to_load_is_no_hang_of_the_driver(tmp_path: Path) -> None:
    receipt = watched(tmp_path, {"import": "hang"}, hold=0.5, end=0.5)
    assert (receipt["exit_code"], bad(receipt)) == (0, [])
    [check] = [c for c in receipt["checks"] if c["id"] == "nvml"]
    assert (check["status"], check["message"]) == ("skip", "NVML took too long to load")


def test_a_monitor_that_sends_no_samples_is_given_up_before_the_others_are_done(tmp_path: Path) -> None:
    # A product takes longer than the watcher may say nothing.
    receipt = watched(tmp_path, {"hang": "nvmlDeviceGetPowerUsage"}, silent=0.5, end=60, lasts={"product": 3})
    assert bad(receipt) == [("deadline", None)]
    assert receipt["summary"] == "no answer within 0.5 s while asking NVML"


def test_a_gpu_that_hangs_is_reported_and_not_the_monitor(smoke: Smoke) -> None:
    run = smoke("--deadline-sec", "4", nvml={"xids": [{"code": 119}]}, faults=[{"kind": "hang", "dtype": "float32"}])
    assert (run.code, run.bad()) == (4, [("deadline", 0), ("xid", 0)])


def test_a_gpu_lost_during_the_run_is_a_gpu_fault(smoke: Smoke) -> None:
    run = smoke("--profile", "standard", nvml={"gpus": [{"lost": 1}]}, lasts={"gemm": 1.5})
    assert (run.code, run.bad()) == (1, [("gpu.lost", 0)])
    assert run.summary == "GPU 0 is lost: it has fallen off the bus"
    assert run.receipt["action"] == "replace-node"
    assert statuses(run)["ecc"] == "skip"


@pytest.mark.slow
def test_a_monitor_that_ends_without_answers_is_no_pass(smoke: Smoke) -> None:
    run = smoke("--profile", "standard", nvml={"leave": True}, lasts={"gemm": 1.5})
    assert run.code == 2
    assert run.bad() == [("complete", None)] * len(HEALTH)
    assert run.summary == "GPU 0 has no result for mig, so the run cannot pass (and 9 more)"


def test_processes_are_not_judged_if_the_check_began_before_nvml_listed_them(tmp_path: Path) -> None:
    receipt = watched(tmp_path, {"gpus": [{"processes": [[1, 2], []]}]}, hold=0)
    assert receipt["exit_code"] == 0
    [check] = [c for c in receipt["checks"] if c["id"] == "exclusive.processes"]
    assert check["status"] == "skip"
