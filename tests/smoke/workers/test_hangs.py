"""A device or a driver that hangs, dies, or computes wrong: the verdict comes in time and is never a pass."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ONE_GPU, Outcome, Smoke, environment

HANG = [{"kind": "hang", "dtype": "float16"}]


def hung(smoke: Smoke, where: str, *args: str, **fake: Any) -> Outcome:
    """Return a run that was stopped in that step. On a slow machine it needs a longer deadline to reach the step."""
    for deadline in ("2", "8", "40"):
        run = smoke("--deadline-sec", deadline, *args, **fake)
        if run.summary.endswith(where):
            break
    assert run.summary.endswith(f"no answer within {deadline} s while {where}")
    assert run.code == 4
    assert run.first_bad()["severity"] == "hang"
    assert 0 <= run.receipt["seconds"] - float(deadline) < 25  # not before, and not whenever the device likes
    return run


def test_a_kernel_that_hangs_is_given_up_at_the_deadline(smoke: Smoke) -> None:
    run = hung(smoke, "multiplying float16 matrices", "--pool", "l4", faults=HANG)
    assert run.summary.startswith("l4: GPU 0: no answer within ")
    assert run.receipt["action"] == "replace-node"
    assert [product["dtype"] for product in run.receipt["products"]] == ["float32"]  # what came before is kept
    assert run.message.startswith(run.summary)


def test_a_gpu_that_hangs_does_not_hide_what_the_other_one_did(smoke: Smoke) -> None:
    # The second one hangs in its last product, and then the first one has long ended, or hangs as well.
    faults = [{"kind": "hang", "gpu": 1, "dtype": "bfloat16"}]
    run = hung(smoke, "multiplying bfloat16 matrices", "--expect-gpus", "2", gpus=[{}, {}], faults=faults)
    assert ("deadline", 1) in run.bad()
    assert [p["dtype"] for p in run.receipt["products"] if p["gpu"] == 0][:2] == ["float32", "float16"]


@pytest.mark.parametrize(
    ("fake", "where", "action"),
    [({"import": "hang"}, "importing torch", "none"), ({"count": "hang"}, "asking CUDA for the GPUs", "reboot")],
)
def test_a_hang_before_the_first_kernel_names_the_step(
    smoke: Smoke, fake: dict[str, str], where: str, action: str
) -> None:
    run = hung(smoke, where, **fake)
    assert run.summary.startswith("no answer")
    assert run.receipt["action"] == action


@pytest.mark.parametrize(
    ("name", "code", "action"), [("SIGSEGV", 1, "replace-node"), ("SIGKILL", 2, "none"), ("SIGILL", 2, "fix-image")]
)
def test_a_child_that_dies_in_a_kernel_is_no_pass(smoke: Smoke, name: str, code: int, action: str) -> None:
    run = smoke(faults=[{"kind": name, "dtype": "float32"}])
    assert run.code == code
    words = f"died of {name} while multiplying float32 matrices; its last output: the driver has a last word"
    assert run.summary == f"GPU 0: {words}"
    assert run.receipt["action"] == action


@pytest.mark.parametrize(
    ("lie", "summary"),
    [
        ("exit", "exited with code 0 while importing torch"),
        ("say done", "nothing was computed, so the run cannot pass"),
    ],
)
def test_a_child_that_proves_nothing_is_no_pass(smoke: Smoke, lie: str, summary: str) -> None:
    run = smoke(**{"import": lie})
    assert run.code == 2
    assert run.summary == summary


def test_a_worker_that_dies_after_its_event_done_is_no_pass(smoke: Smoke) -> None:
    run = smoke(end="SIGSEGV")
    assert (run.code, run.bad()) == (2, [("child", 0)])
    assert run.summary.startswith("GPU 0: died of SIGSEGV while leaving torch")
    assert len(run.receipt["products"]) == 3


def test_a_child_that_leaves_a_format_out_is_no_pass(smoke: Smoke) -> None:
    run = smoke(faults=[{"kind": "say done", "dtype": "bfloat16"}])
    assert run.code == 2
    assert run.summary == "GPU 0 computed no bfloat16 product, so the run cannot pass (and 2 more)"


def test_a_library_that_prints_without_end_neither_blocks_nor_ends_up_in_the_receipt(smoke: Smoke) -> None:
    run = smoke(**{"import": "chatter"})
    assert run.code == 0
    assert run.stdout == ""
    assert "chatter" not in json.dumps(run.receipt)


# Every stage may take six seconds, so that the test does not wait for the run's own deadline.
SIX = "import sys; from gpu_smoke import __main__, plan; plan.Task.limit_sec = 6.0; sys.exit(__main__.main())"


def start(tmp_path: Path, program: list[str], deadline: str = "2", **fake: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, "--json", str(tmp_path / "receipt.json"), "--deadline-sec", deadline],
        env={
            **environment(**{"gpus": ONE_GPU, **fake}),
            "FAKE_TORCH_IMPORTS": str(tmp_path / "imports"),
            "FAKE_TORCH_HANGS": str(tmp_path / "hangs"),
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_child(tmp_path: Path) -> int:
    """Return the process that hangs, once it does."""
    for _ in range(600):
        if (tmp_path / "hangs").exists() and (text := (tmp_path / "hangs").read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("no child hangs")


def gone(pid: int) -> bool:
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # dead; process 1 of a container may not collect it
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_from_outside_it_still_leaves_a_verdict_and_no_process(tmp_path: Path, number: signal.Signals) -> None:
    parent = start(tmp_path, ["-m", "gpu_smoke"], deadline="100", faults=[{"kind": "hang"}])
    child = wait_for_child(tmp_path)
    parent.send_signal(number)
    parent.communicate(timeout=60)
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert parent.returncode == receipt["exit_code"] == 4
    assert f"stopped by {number.name} while " in receipt["summary"]
    assert receipt["action"] == "none"
    assert receipt["checks"][-1]["hint"] == "the run was stopped before an answer came"
    assert gone(child)


def test_killed_it_leaves_a_receipt_that_is_no_pass_and_takes_its_child_along(tmp_path: Path) -> None:
    parent = start(tmp_path, ["-m", "gpu_smoke"], deadline="100", faults=[{"kind": "hang"}])
    child = wait_for_child(tmp_path)
    parent.kill()
    parent.communicate(timeout=60)
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert (receipt["ok"], receipt["verdict"], receipt["exit_code"]) == (False, "incomplete", None)
    assert gone(child)


def test_the_parent_never_imports_torch(tmp_path: Path) -> None:
    parent = start(tmp_path, ["-m", "gpu_smoke"], deadline="100")
    parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert str(parent.pid) not in (tmp_path / "imports").read_text().split()


def test_the_verdict_is_out_before_anything_is_killed_and_an_unkillable_child_is_not_waited_for(
    tmp_path: Path,
) -> None:
    # A process in the driver's hands does not die of SIGKILL. Here the kill is taken away instead.
    receipt, seen = tmp_path / "receipt.json", tmp_path / "seen.json"
    program = (
        "import os, shutil, sys; from gpu_smoke import __main__; "
        f"os.killpg = lambda *_: os.path.exists({str(seen)!r}) or shutil.copy({str(receipt)!r}, {str(seen)!r}); "
        "sys.exit(__main__.main())"
    )
    parent = start(tmp_path, ["-c", program], faults=[{"kind": "hang"}])
    _, stderr = parent.communicate(timeout=60)
    assert parent.returncode == 4
    at_the_kill = json.loads(seen.read_text())
    assert (at_the_kill["verdict"], at_the_kill["exit_code"]) == ("fail", 4)
    [survivor] = json.loads(receipt.read_text())["host"]["unkillable"]
    assert f"process {survivor} outlived SIGKILL" in stderr
    assert gone(survivor)
