"""The notice file on an emulated machine: the time of a job after a preemption, below a runner with GitHub's timing."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gpu_agent.agent import Agent
from gpu_agent.clock import Clock
from gpu_agent.host import Notice
from gpu_agent.machine.gpu_use import Sampler
from gpu_agent.machine.system import System
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner.notices import NoticeFile
from gpu_agent.runner.session import StartedRunner
from gpu_agent.supervisor import GRACE_SEC
from gpu_ci.payload import agent_archive

from tests.agent.fakes import machine
from tests.agent.fakes.runner import RUN, processes_of_the_user, start_runner
from tests.agent.fakes.steps import CANCEL, SHELL, TRAINING, wait_for

PREEMPTED = Notice("preempted", "Google preempts the machine")
FOLDER = Path("/home/gpu-runner/work")
# Runs one step in bash, and cancels it at SIGINT as GitHub's runner does: signals to the first process alone.
_LISTENER = """
folder = root / "_work"
(folder / "train.py").write_text({training!r})
(folder / "step.sh").write_text({script!r})
def tree(pid):
    for child in Path(f"/proc/{{pid}}/task/{{pid}}/children").read_text().split():
        yield from tree(int(child))
    yield pid
say("Running job: train")
process = subprocess.Popen([*{shell!r}, "step.sh"], cwd=folder)
def cancel():
    for number, seconds in {cancel!r}:
        process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
    for pid in tree(process.pid):
        os.kill(pid, signal.SIGKILL)
import threading
signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=cancel).start())
while process.poll() is None:
    time.sleep(0.02)
(folder / "code").write_text(str(process.returncode))
end(0)
"""


def preempt(script: str, ready: str = "ready", grace_sec: float = 10.0) -> dict[str, Any]:
    """Run one step, preempt its machine, and return what happened.

    `ready` is the file of the step after which the notice comes.
    """

    def work() -> dict[str, Any]:
        RUN.mkdir(parents=True)
        archive = RUN / "agent.pyz"
        archive.write_bytes(base64.b64decode(agent_archive()))
        system, clock, nothing = System(run_folder=RUN, python=machine.open_python()), Clock(), cast(Any, None)
        notices = NoticeFile(system, RUN / "runner", archive)
        does = _LISTENER.format(
            training=TRAINING, script=script.format(python=machine.open_python()), shell=SHELL,
            cancel=[(int(number), seconds) for number, seconds in CANCEL],
        )  # fmt: skip
        running = start_runner(does, print, environment=notices.environment)
        hooks = cast(Any, SimpleNamespace(job=None, refused="", close=lambda: None))
        started = StartedRunner(
            running, hooks, nothing, nothing, system, clock, Sampler(nothing, (), clock), notices, grace_sec
        )
        wait_for(FOLDER / ready)
        graces: list[float] = []
        agent = Agent(nothing, cast(Any, SimpleNamespace(grace=graces.append)))
        agent._running = started
        started.announce(Notice("maintenance", "Google will stop the machine"), ends=False)
        before = json.loads((RUN / "notice").read_text())["graceSec"]
        began = time.monotonic()
        agent._ends_machine(PREEMPTED)
        has_notice_first = json.loads((RUN / "notice").read_text())
        waited_sec = agent._let_job_save(started, AgentExit("stopped", ""))
        started.interrupt(GRACE_SEC - waited_sec)
        took_sec = time.monotonic() - began
        files = {path.name: path.read_text() for path in FOLDER.iterdir()}
        return {
            **{name: files.get(name, "").split() for name in ("events", "code", "tries")},
            "before": before, "notice": has_notice_first, "graces": graces, "sec": took_sec,
            "left": processes_of_the_user(),
        }  # fmt: skip

    found: dict[str, Any] = machine.inside(work)
    assert found["left"] == 0
    return found


def test_an_armed_job_saves_its_work_without_any_signal_of_the_runner() -> None:
    # A job cannot change what the program loads.
    fake = "lib=$(mktemp -d); echo 'raise SystemExit(9)' >$lib/ctypes.py; PYTHONPATH=$lib"
    found = preempt(f"{fake} gpu-ci-preempt -- {{python}} train.py 2")
    assert found["before"] is None
    assert (found["events"], found["code"], found["graces"]) == (["SIGTERM", "saved"], ["75"], [10])
    assert found["notice"] == {"reason": "preempted", "announcement": PREEMPTED.announcement, "graceSec": 10}
    assert 2 <= found["sec"] < 5


@pytest.mark.slow
def test_a_job_that_armed_nothing_ends_as_before() -> None:
    found = preempt("{python} train.py 1\ntrue")
    assert (found["events"], found["code"], found["graces"]) == ([], ["-15"], [])
    assert found["notice"]["graceSec"] == 0
    assert 7.5 <= found["sec"] < 9.5


@pytest.mark.slow
def test_a_grace_of_0_is_no_grace() -> None:
    found = preempt('touch "$GPU_CI_NOTICE_FILE.armed" ready; sleep 60', grace_sec=0)
    assert (found["graces"], found["notice"]["graceSec"]) == ([], 0)
    assert found["sec"] < 9.5


HANGS = """
trap "" INT TERM
touch "$GPU_CI_NOTICE_FILE.armed" ready
setsid {python} -c 'import os, time
while True:
    if os.fork(): os._exit(0)
    time.sleep(0.001)' &
while true; do sleep 1; done
"""


@pytest.mark.slow
def test_an_armed_job_that_hangs_gets_its_grace_and_then_ends_as_before() -> None:
    found = preempt(HANGS, grace_sec=2)
    assert found["graces"] == [2]
    # The grace, the 8 s of the runner, and the kill of all processes.
    assert 10 <= found["sec"] < 12.5


# A job that tries to write a notice of its own, and to keep the agent from writing one.
_FORGES = """
import os, pathlib
file = pathlib.Path(os.environ["GPU_CI_NOTICE_FILE"])
tries = {
    "write": lambda: file.write_text("{}"),
    "link": lambda: file.symlink_to("/etc/passwd"),
    "new": lambda: (file.parent / "notice.new").mkdir(),
    "relink": lambda: pathlib.Path(f"{file}.armed").unlink(),
    "program": lambda: (file.parent / "bin" / "gpu-ci-preempt").write_text(""),
    "rename": lambda: file.parent.rename("/run/other"),
}
with open("tries", "w") as said:
    for name, attempt in tries.items():
        try:
            attempt()
            print(name, "done", file=said)
        except OSError as error:
            print(name, type(error).__name__, file=said)
    print("exists", file.exists(), file=said)
armed = pathlib.Path(f"{file}.armed")
os.symlink("/etc/missing", os.readlink(armed))
pathlib.Path("ready").touch()
"""


def test_a_job_can_neither_write_a_notice_nor_prevent_one() -> None:
    found = preempt(f"{{python}} - <<'END'\n{_FORGES.replace('{', '{{').replace('}', '}}')}END\n")
    tries = dict(zip(found["tries"][::2], found["tries"][1::2], strict=True))
    assert tries.pop("exists") == "False"
    assert set(tries.values()) == {"PermissionError"}, tries
    # A link is a name too, so the job is armed, and nothing was read through the link.
    assert (found["notice"]["graceSec"], found["code"]) == (10, ["0"])


def test_a_full_disk_does_not_prevent_the_end(tmp_path: Path) -> None:
    system = System(run_folder=tmp_path)
    (tmp_path / "notice").write_text("of an earlier runner")
    notices = NoticeFile(system, tmp_path / "runner", tmp_path / "agent.pyz")
    (tmp_path / "notice.new").mkdir()
    notices.write(PREEMPTED, 10)
    assert not (tmp_path / "notice").exists()
    assert not notices.is_armed
    (tmp_path / "runner").mkdir()
    Path(f"{notices.environment['GPU_CI_NOTICE_FILE']}.armed").touch()
    assert notices.is_armed
    assert [path.name for path in (tmp_path / "runner").iterdir()] == ["armed"]
