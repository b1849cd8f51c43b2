"""The receipt and the termination message: their form, and files that cannot be written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ..conftest import ONE_GPU, Smoke, environment
from ..receipt_schema import PUBLISHED, faults_of


def test_the_published_schema_is_one() -> None:
    Draft202012Validator.check_schema(PUBLISHED)


def one(**check: Any) -> dict[str, Any]:
    return {"checks": [{"id": "gpu.count", "status": "pass", "message": "1 GPU", **check}]}


FAILED = {"status": "fail", "severity": "env", "action": "none", "hint": "look"}


def test_a_run_that_has_not_ended_or_was_killed_leaves_an_incomplete_receipt_of_the_same_form(tmp_path: Path) -> None:
    path, said = tmp_path / "receipt.json", tmp_path / "message"
    command = [sys.executable, "-m", "gpu_smoke", "--json", path, "--termination-log", said]
    run = subprocess.Popen(
        command,
        env=environment(gpus=ONE_GPU, faults=[{"kind": "hang"}]),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stderr is not None
    with run:
        next(line for line in run.stderr if "multiplying" in line)
        run.kill()
    record = json.loads(path.read_text())
    assert faults_of(record) == []
    assert (record["verdict"], record["ok"], record["exit_code"]) == ("incomplete", False, None)
    assert said.read_text() == "the check has not ended; if it no longer runs, it was killed\n"


def test_a_dash_sends_the_receipt_alone_to_standard_output(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--json", "-"],
        env=environment(gpus=ONE_GPU),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert faults_of(json.loads(done.stdout)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("reader", "code"), [("a disk that is full", 2), ("nobody", 0)])
def test_a_receipt_that_standard_output_does_not_take_is_no_pass_but_its_reader_may_leave(
    reader: str, code: int
) -> None:
    read, write = os.pipe()
    os.close(read)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpu_smoke", "--json", "-"],
            env=environment(gpus=ONE_GPU),
            stdout=full if code else write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    os.close(write)
    assert done.returncode == code
    last = done.stderr.splitlines()[-1]
    assert (last == "gpu-smoke: cannot be written: --json -: No space left on device") == (code == 2)


def test_the_message_is_cut_to_4000_bytes_between_characters(smoke: Smoke) -> None:
    # Names of two-byte characters, one byte apart in the two runs: the cut must hit one in the middle once.
    lengths = set()
    for prefix in ("", "x"):
        gpus = [{"name": prefix + "é" * 250, "uuid": str(index)} for index in range(4)]
        run = smoke("--expect-gpu", "L4", "--expect-gpus", "4", "--min-compute-capability", "9.0", gpus=gpus)
        assert run.code == 2
        assert "\ufffd" not in run.message
        assert run.message.startswith(f"GPU 0 is {prefix}éé")
        lengths.add(len(run.message.encode()))
    assert lengths == {3999, 4000}


def test_the_message_of_a_failure_has_the_summary_the_hint_and_then_each_failure(smoke: Smoke) -> None:
    run = smoke("--expect-gpus", "2", "--expect-gpu", "H100", "--pool", "h")
    assert run.message.splitlines() == [
        "h: 1 GPU found, 2 expected (and 1 more)",
        "hint: a GPU is broken or not handed to this container: compare nvidia-smi -L here and on the machine",
        "gpu.count: 1 GPU found, 2 expected",
        "gpu.name: GPU 0 is NVIDIA L4, expected H100",
    ]


def test_a_device_or_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)  # both, so that no process waits for the other
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpu_smoke", "--termination-log", pipe],
            env=environment(gpus=ONE_GPU),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert os.read(reader, 10_000).decode().endswith("the same every time\n")
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize(("lost", "kept"), [("--json", "--termination-log"), ("--termination-log", "--json")])
def test_a_pass_of_which_a_report_is_lost_is_no_pass(tmp_path: Path, lost: str, kept: str) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    # The folder goes away once the check has begun.
    program = (
        "import shutil, sys; from gpu_smoke import __main__; from gpu_smoke.workers import parent; real = parent.run; "
        f"parent.run = lambda *args: (shutil.rmtree({str(folder)!r}), real(*args))[1]; sys.exit(__main__.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, lost, folder / "report", kept, tmp_path / "kept"],
        env=environment(gpus=ONE_GPU),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    wrong = f"cannot be written: {lost} {folder}/report: No such file or directory"
    assert done.stderr.splitlines()[-1].startswith(f"gpu-smoke: {wrong}")
    report = (tmp_path / "kept").read_text()
    assert wrong in report
    if kept == "--json":
        assert (json.loads(report)["verdict"], json.loads(report)["exit_code"]) == ("fail", 2)


@pytest.mark.parametrize(("faults", "code"), [([], 0), ([{"kind": "element", "by": 3}], 1)])
@pytest.mark.parametrize("streams", ["2>&1 | true", "2>&1 >&- | true", ">&- 2>&- <&-"])
def test_a_reader_that_is_not_there_does_not_change_the_verdict(
    streams: str, faults: list[dict[str, Any]], code: int
) -> None:
    command = f'"{sys.executable}" -m gpu_smoke --json - {streams}; exit "${{PIPESTATUS[0]}}"'
    fake = environment(gpus=ONE_GPU, faults=faults)
    assert subprocess.run(["bash", "-c", command], env=fake, check=False, timeout=60).returncode == code
