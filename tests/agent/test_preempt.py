"""gpu-ci-preempt with real processes, below bash as GitHub's runner starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_agent import preempt

from tests.agent.fakes.steps import TRAINING, Step, wait_for

FILE = Path(preempt.__file__)
PREEMPTED = {"reason": "preempted", "announcement": "Google preempts the machine", "graceSec": 10}


def write(file: Path, text: str) -> None:
    """Write a notice at once, as the agent does."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def step(folder: Path, script: str, **environment: str) -> Step:
    return Step(folder, script.format(python=sys.executable, preempt=f"{sys.executable} {FILE}"), environment)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["--", "sh", "-c", "exit 3"], 3),
        (["true"], 0),
        (["--", "sh", "-c", "kill -9 $$"], 137),
        (["--", "no-such-program"], 127),
        (["--", "/dev/null"], 126),
        ([], 2),
        (["--"], 2),
        (["--", ""], 2),
        (["--grace", "5"], 2),
        (["--help"], 0),
    ],
)
def test_without_a_notice_the_exit_code_is_that_of_the_command(command: list[str], code: int) -> None:
    done = subprocess.run(
        [sys.executable, str(FILE), *command], check=False, capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),  # as a parent may do
    )  # fmt: skip
    assert done.returncode == code, done
    assert done.stderr.count("\n") == (0 if code in (0, 3, 137) else preempt.USAGE.count("\n") if code == 2 else 1)


def test_the_command_has_the_usual_signals() -> None:
    command = [sys.executable, str(FILE), "--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Without the internal signals 32 and 33 of the C library.
    assert [int(line.split()[1], 16) & 0x7FFF_FFFF for line in found.splitlines()] == [0, 0]


@pytest.mark.parametrize(
    ("text", "stderr"),
    [(json.dumps({**PREEMPTED, "graceSec": 0}), ""), ("", "2>&-"), ("[]", "2>/dev/full"), ("x", ""), ("[" * 10**5, "")],
    ids=["notice", "empty", "list", "text", "deep"],
)
def test_a_notice_sends_one_sigterm_and_waits_for_the_save(tmp_path: Path, text: str, stderr: str) -> None:
    """A file of another program than the agent, such as a preStop hook, may have any content."""
    file = tmp_path / "notice"
    running = step(tmp_path, f"{{preempt}} -- {{python}} train.py 1 {stderr}", GPU_CI_NOTICE_FILE=str(file))
    wait_for(tmp_path / "ready")
    assert (tmp_path / "notice.armed").exists()
    write(file, text)
    code, took_sec = running.wait()
    assert (code, running.events()) == (75, ["SIGTERM", "saved"])
    assert 1 <= took_sec < 4


def test_a_notice_after_which_the_job_continues_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "notice"
    write(file, json.dumps({**PREEMPTED, "reason": "maintenance", "graceSec": None}))
    running = step(tmp_path, "{preempt} -- sh -c 'sleep 1; exit 4'", GPU_CI_NOTICE_FILE=str(file))
    assert running.wait()[0] == 4


def test_a_command_whose_first_process_ends_at_once_is_waited_for_as_a_whole(tmp_path: Path) -> None:
    """A shell without a trap ends at SIGTERM, while its child saves."""
    file = tmp_path / "notice"
    running = step(tmp_path, "{preempt} -- sh -c '{python} train.py 1; true'", GPU_CI_NOTICE_FILE=str(file))
    wait_for(tmp_path / "ready")
    write(file, json.dumps(PREEMPTED))
    assert running.wait()[0] == 75
    assert running.events() == ["SIGTERM", "saved"]


def test_a_command_that_has_ended_is_not_interrupted(tmp_path: Path) -> None:
    """The notice comes in the same moment as the end of the command: the command itself writes it."""
    file = tmp_path / "notice"
    script = f"{{preempt}} -- sh -c 'echo \"{{{{}}}}\" >{file}; exit 0'"
    assert step(tmp_path, script, GPU_CI_NOTICE_FILE=str(file)).wait()[0] == 0


def test_a_file_that_cannot_be_armed_is_named_and_the_command_still_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "GPU_CI_NOTICE_FILE": str(tmp_path / "none" / "notice")}
    command = [sys.executable, str(FILE), "--", "true"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stderr.startswith(f"gpu-ci-preempt: {tmp_path}/none/notice.armed: No such file or directory; ")


def test_the_runners_own_signals_save_the_work_if_the_step_is_this_program(tmp_path: Path) -> None:
    """Without a notice file, as on Kubernetes: SIGINT to the first process only."""
    running = step(tmp_path, "exec {preempt} -- {python} train.py 3")
    wait_for(tmp_path / "ready")
    running.cancel()
    code, took_sec = running.wait()
    assert (code, running.events()) == (75, ["SIGTERM", "saved"])
    assert 3 <= took_sec < 6


@pytest.mark.slow
def test_the_runners_own_signals_do_not_reach_a_command_below_the_shell(tmp_path: Path) -> None:
    running = step(tmp_path, "{python} train.py 0\ntrue")
    wait_for(tmp_path / "ready")
    running.cancel()
    code, took_sec = running.wait()
    assert (code, running.events()) == (-signal.SIGTERM, [])
    assert 7.5 <= took_sec < 9
    running.kill_tree()


def test_the_training_of_these_tests_does_not_end_by_itself(tmp_path: Path) -> None:
    """Without this, a save could be one that no signal caused."""
    (tmp_path / "train.py").write_text(TRAINING)
    with subprocess.Popen([sys.executable, "train.py", "0"], cwd=tmp_path) as process:
        wait_for(tmp_path / "ready")
        time.sleep(0.5)
        assert process.poll() is None
        process.kill()
