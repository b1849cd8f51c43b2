"""Commands that are stopped half way, by a person, by a signal, or by SIGKILL: what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox import passthrough

from tests.sandbox.conftest import OUR_HOST, Project, needs_our_host
from tests.sandbox_runner import AS_FOR_USERS, SandboxRunner, read_until

pytestmark = pytest.mark.engine

COMMAND = str(Path(sys.executable).parent / "pulumi-sandbox")
UP = ("up", "--stack", "dev", "--yes", "--skip-preview")

NAP = """
import os, subprocess, time
subprocess.Popen(["sleep", "600"])
print("asleep", flush=True)
time.sleep(600)
"""


def locks(runner: SandboxRunner) -> list[Path]:
    return [path for path in (runner.folder / "state").rglob("*.json") if "locks" in path.parts]


@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        (signal.SIGINT, True),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_up_stops_once_and_leaves_no_process_and_no_lock(
    project: Project, number: signal.Signals, whole_group: bool
) -> None:
    runner = project(NAP)
    process = runner.start(*UP, **AS_FOR_USERS)
    output = read_until(process, "asleep")
    assert locks(runner) != []
    (os.killpg if whole_group else os.kill)(process.pid, number)
    output += process.communicate(timeout=60)[0]
    assert process.returncode not in (0, -number)
    assert "received; cancelling" in output
    assert "terminating\n" not in output
    assert runner.gone() == {}
    assert locks(runner) == []


@pytest.mark.slow
def test_when_the_wrapper_is_killed_pulumi_stops_in_good_order(project: Project) -> None:
    runner = project(NAP)
    process = runner.start(*UP, **AS_FOR_USERS)
    read_until(process, "asleep")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert runner.gone() == {}
    assert locks(runner) == []


@pytest.mark.slow
@needs_our_host
def test_when_pulumi_is_killed_its_program_ends_and_the_next_command_says_what_to_do(project: Project) -> None:
    runner = project(NAP)
    process = runner.start(*UP, **AS_FOR_USERS, **OUR_HOST)
    read_until(process, "asleep")
    [pulumi] = [pid for pid, command in runner.processes().items() if "/pulumi up " in f"{command} "]
    os.kill(pulumi, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 137
    assert runner.gone() == {}
    assert len(locks(runner)) == 1
    assert "pulumi cancel" in runner.run(*UP, ok=False).output
    runner.run("cancel", "--stack", "dev", "--yes")
    assert locks(runner) == []


COUNTS_SIGNALS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
os.write(1, b"ready in a group of its own\\n" if os.getpgrp() == os.getpid() else b"ready\\n")
ends = time.monotonic() + float(sys.argv[1])
while time.monotonic() < ends:
    time.sleep(0.01)
sys.exit(9)
"""


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_signal_is_passed_on_exactly_once(whole_group: bool) -> None:
    """Twice would make pulumi give up at once and leave half-made resources.

    Two signals close together may arrive as one, so the group that keeps the second away is asserted too.
    """
    call = (
        "import os, sys; from pathlib import Path; from pulumi_sandbox import passthrough; "
        f"sys.exit(passthrough.run(Path(sys.executable), ['-c', {COUNTS_SIGNALS!r}, '0.7'], os.environ))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        output = read_until(process, "ready")
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        output += process.communicate(timeout=60)[0]
    assert output == "ready in a group of its own\ninterrupted\n"
    assert process.returncode == 9


@pytest.mark.parametrize(
    ("on_terminal", "number", "times"),
    [
        (True, signal.SIGINT, 0),
        (True, signal.SIGQUIT, 0),
        (True, signal.SIGTERM, 1),
        (True, signal.SIGHUP, 1),
        (False, signal.SIGINT, 1),
        (False, signal.SIGQUIT, 1),
        (False, signal.SIGTERM, 1),
    ],
)
def test_only_what_the_terminal_has_sent_to_pulumi_itself_is_not_passed_on(
    on_terminal: bool, number: signal.Signals, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal and a second process: two signals at once may arrive as one, and hide what was sent twice."""
    sent: list[int] = []

    class Pulumi:
        def __init__(self, *_: object, **more: object) -> None:
            assert more["process_group"] == (None if on_terminal else 0)

        def send_signal(self, given: int) -> None:
            sent.append(given)

        def wait(self) -> int:
            os.kill(os.getpid(), number)
            return 5

    monkeypatch.setattr(passthrough.subprocess, "Popen", Pulumi)
    monkeypatch.setattr(passthrough, "owns_terminal", lambda: on_terminal)
    assert passthrough.run(Path("pulumi"), [], {}) == 5
    assert sent == [number] * times
