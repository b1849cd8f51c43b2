"""The supervisor with real processes: however the agent ends, the machine reports one reason and switches off."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import agent, report, supervisor
from gpu_agent.channel import Channel, Ending, Incoming
from gpu_agent.google import compute_engine
from gpu_agent.machine import commands, gpu_use
from gpu_agent.machine.gpu_use import GpuUse
from gpu_agent.report import Verdict
from gpu_agent.runner import session
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]

# A host that records its calls. The agent runs `work`, which each test defines.
PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
from gpu_agent.channel import Ending
from gpu_agent.clock import Clock
from gpu_agent.machine.gpu_use import GpuUse
from gpu_agent.outcomes import AgentExit
from gpu_agent.report import Reporter, Verdict
from gpu_agent.supervisor import Supervisor

folder = Path(sys.argv[1])

class Host:
    def note(self, *words):
        with (folder / "notes").open("a") as file:
            file.write(json.dumps(words) + chr(10))
    def publish(self, key, value, within_sec):
        self.note(key, json.loads(value))
    def log(self, severity, message, within_sec, **fields): self.note("log", severity)
    def notice(self, timeout_sec): return None
    def power_off(self): self.note("off")

def here(name):
    (folder / name).touch()
    while True: time.sleep(0.01)

def work(channel):
{work}

host, clock = Host(), Clock()
reporter = Reporter(host, clock, lambda text: None, folder)
def clear():
    {clear}
Supervisor(host, reporter, clock, pause_sec={pause_sec}, grace_sec=5, margin_sec=0, clear=clear).run(work, 60)
host.note("returned")
"""


class Run:
    """One supervised agent."""

    def __init__(self, folder: Path, work: str, clear: str = "pass", pause_sec: float = 0) -> None:
        self.folder = folder
        source = PROGRAM.format(work=textwrap.indent(textwrap.dedent(work), "    "), clear=clear, pause_sec=pause_sec)
        self.process = subprocess.Popen([sys.executable, "-c", source, str(folder)])

    def signal(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the supervisor a signal when the agent has reached this place."""
        while not (self.folder / name).exists():
            assert self.process.poll() is None
            time.sleep(0.01)
        self.process.send_signal(number)

    def notes(self) -> list[Any]:
        """Return the calls of the host after the supervisor has ended."""
        self.process.wait(30)
        file = self.folder / "notes"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def end(self) -> tuple[str, str, str]:
        """Return the reason, detail and step of the only end, which a power-off follows."""
        notes = self.notes()
        (end,) = [note[1] for note in notes if note[0] == "gpu-agent/end"]
        assert [note[0] for note in notes].count("off") == 1
        assert [note[0] for note in notes].index("off") > [note[0] for note in notes].index("gpu-agent/end")
        return end["reason"], end["detail"], end["step"]


def test_a_machine_that_ran_a_job_is_switched_off_at_once(tmp_path: Path) -> None:
    """Only a gate reads the verdict of a machine that is still on."""
    run = Run(tmp_path, 'channel.job({"job": "test"}); return Ending("job-done", "")', pause_sec=600)
    assert run.end()[0] == "job-done"


def test_an_agents_own_end_is_the_machines(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        """
        channel.step("check", 60)
        channel.verdict(Verdict("pass", 0, "fine", "proven"))
        return Ending("job-done", "it is done")
        """,
    )
    assert run.end() == ("job-done", "it is done", "check")
    assert [note[0] for note in run.notes()] == [
        "gpu-smoke/verdict",
        "gpu-agent/end",
        "log",
        "off",
        "returned",
    ]


def test_an_exception_is_a_crash_with_its_place_and_without_its_text(tmp_path: Path) -> None:
    run = Run(tmp_path, 'raise ValueError("s3cret")')
    reason, detail, _ = run.end()
    assert reason == "crashed"
    assert detail.startswith("ValueError in <string>, line ")
    assert "s3cret" not in (tmp_path / "notes").read_text()


def test_an_agent_whose_supervisor_is_killed_reports_its_step_and_its_job(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        """
        channel.step("job", None)
        channel.job({"repository": "example-org/app", "run_id": "7", "run_attempt": "1", "job": "test"})
        channel.gpu_use(GpuUse(0.5, 4, 3.0))
        here("there")
        """,
    )
    run.signal("there", signal.SIGKILL)
    while not (tmp_path / "notes").exists() or '["off"]' not in (tmp_path / "notes").read_text():
        time.sleep(0.01)
    (end,) = [note[1] for note in run.notes() if note[0] == "gpu-agent/end"]
    assert (end["reason"], end["detail"]) == ("crashed", "the agent's supervisor was killed in step job")
    assert end["job"] == {"repository": "example-org/app", "run": 7, "attempt": 1}
    assert end["gpuUse"] == {"utilAvg": 0.5, "memMaxMib": 4, "joules": 3.0}


def test_a_step_that_hangs_is_ended_even_where_the_agent_takes_no_signal(tmp_path: Path) -> None:
    work = """
    channel.step("register", 0.2)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    here("there")
    """
    words = "step register did not end within its deadline"
    assert Run(tmp_path, work).end() == ("timed-out", words, "register")


def test_a_stopped_machine_reports_the_stop_and_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path, 'channel.step("waiting", 60); here("there")')
    run.signal("there")
    assert run.end() == ("stopped", "the machine received a stop signal in step waiting", "waiting")


def test_the_steps_of_a_stop_fit_into_what_systemd_and_google_give_them() -> None:
    script = (ROOT / "components/gpu_ci/gcp/machine/boot.sh").read_text()
    [unit_sec] = re.findall(r"--property=TimeoutStopSec=(\d+)", script)
    assert float(unit_sec) == supervisor.OFF_SEC
    # cloud.google.com/compute/docs/instances/preemptible, "Preemption process": off after 30 s.
    assert supervisor.STOP_SEC < supervisor.OFF_SEC == 30
    # The agent: its runner ends its job, GitHub removes the runner, and the thread that listens for notices ends. A
    # command that the agent runs gets SIGTERM and then SIGKILL.
    runner_sec = session._INTERRUPT_SEC + session.INTERRUPT_CLEAR_SEC
    assert runner_sec + gpu_use.STOP_SEC + agent._REMOVE_SEC + agent._NOTICE_SEC <= supervisor.GRACE_SEC
    assert commands._GRACE_SEC + 1 <= supervisor.GRACE_SEC
    # The supervisor: a write that had begun ends within the agent's part. Two serial ports may be stuck, so the last
    # lines on each take their full time. The verdict and the end are guest attributes, with two queries for each.
    assert report._PUBLISH_SEC <= supervisor.GRACE_SEC
    attributes_sec = 2 * 2 * compute_engine._QUERY_PAUSE_SEC
    last_sec = supervisor.REAP_SEC + 2 * report._WAIT_SEC + attributes_sec + supervisor.EXIT_SEC
    assert supervisor.GRACE_SEC + last_sec <= supervisor.STOP_SEC
    # An armed job has up to 12 s before. Its runner took a job, so nothing is removed at GitHub.
    more_sec = supervisor.OFF_SEC - supervisor.STOP_SEC
    for grace_sec in range(13):
        interrupt_sec = min(session._INTERRUPT_SEC, supervisor.GRACE_SEC - grace_sec) + session.INTERRUPT_CLEAR_SEC
        agent_sec = grace_sec + interrupt_sec + gpu_use.STOP_SEC + agent._NOTICE_SEC
        assert agent_sec <= supervisor.GRACE_SEC + min(grace_sec, more_sec), grace_sec


@pytest.mark.parametrize("is_first", [True, False])
def test_the_grace_of_a_job_extends_the_time_of_the_agent(tmp_path: Path, is_first: bool) -> None:
    """The agent has 5 s in this test. It may learn of the notice before or after the stop."""
    work = """
    def late(*_): raise AgentExit("preempted", "saved")
    signal.signal(signal.SIGTERM, late)
    GRACE = lambda: channel.grace(3)
    BEFORE
    try:
        here("there")
    except AgentExit:
        AFTER
        time.sleep(6)
        raise
    """
    own, other = ("BEFORE", "AFTER") if is_first else ("AFTER", "BEFORE")
    run = Run(tmp_path, work.replace(own, "GRACE()").replace(other, "pass"))
    run.signal("there")
    assert run.end()[:2] == ("preempted", "saved")


def test_an_agent_has_a_moment_to_clean_up_and_a_second_signal_does_not_disturb_it(tmp_path: Path) -> None:
    work = """
    try:
        here("there")
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        (folder / "clean").touch()
    """
    run = Run(tmp_path, work)
    run.signal("there")
    assert run.end()[0] == "stopped"
    assert (tmp_path / "clean").exists()


@pytest.mark.parametrize("clear", ['host.note("cleared")', 'host.note("cleared"); raise OSError'])
def test_processes_of_a_job_end_before_the_report_and_never_keep_the_machine_on(clear: str, tmp_path: Path) -> None:
    run = Run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", clear=clear)
    assert [note[0] for note in run.notes()] == [
        "cleared", "gpu-smoke/verdict", "gpu-agent/end", "log", "off", "returned",
    ]  # fmt: skip


def sent() -> bytes:
    """Return one message of each kind, as bytes of the pipe."""
    reader, writer = os.pipe()
    channel = Channel(writer)
    channel.step("check", 12.5)
    channel.restarting(True)
    channel.verdict(Verdict("fail", 1, "é\n漢", "check-failed"))
    channel.job({"job": "train"})
    channel.gpu_use(GpuUse(0.5, None, 3.0))
    channel.gpu_use(None)
    channel.end(Ending("job-done", "it ended", stays=True))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        return stream.read()


MESSAGES = [
    {"step": "check", "within_sec": 12.5},
    {"restarting": True},
    {"verdict": ["fail", 1, "é 漢", "check-failed"]},
    {"job": {"job": "train"}},
    {"gpu_use": {"utilAvg": 0.5, "memMaxMib": None, "joules": 3.0}},
    {"gpu_use": None},
    {"end": ["job-done", "it ended", True]},
]


@given(st.lists(st.integers(0, 300), max_size=20))
def test_messages_arrive_whole_wherever_they_are_cut(cuts: list[int]) -> None:
    content, incoming, found = sent(), Incoming(), []
    places = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    for start, end in itertools.pairwise(places):
        found += list(incoming.messages(content[start:end]))
    assert found == MESSAGES


def test_no_secret_goes_even_to_the_supervisor() -> None:
    reader, writer = os.pipe()
    Channel(writer).end(Ending("refused", "ghs_abcdefgh"))
    assert b"ghs_" not in os.read(reader, 4096)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        Channel(writer).restarting(True)
    os.close(writer)
