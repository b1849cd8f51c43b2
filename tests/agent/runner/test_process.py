"""The process of a fake runner: its one job, and each way in which it ends."""

from __future__ import annotations

import os
import time

from gpu_agent.clock import Clock

from tests.agent.fakes import machine
from tests.agent.fakes.started_runner import (
    FOREVER,
    RUN,
    long_enough,
    processes_of_the_user,
    start_runner,
    wait_for_line,
)


def test_a_runner_without_a_job_is_waited_for_until_the_deadline_and_then_ends_on_sigint() -> None:
    def work() -> list[object]:
        running = start_runner(
            f"signal.signal(signal.SIGINT, lambda *_: end(0)); say('ready')\n{FOREVER}", lines.append
        )
        wait_for_line(lines, "| ready")
        waited = running.wait(Clock().now() + 0.2)
        running.interrupt(30)
        return [waited, running.job_seen.is_set(), running.wait(long_enough()), processes_of_the_user()]

    lines: list[str] = []
    assert machine.inside(work) == [None, False, ["ended", "it ended normally"], 0]


def test_only_the_listener_is_interrupted_and_stops_its_worker_itself() -> None:
    def work() -> str:
        child = "import signal, time; signal.signal(signal.SIGINT, lambda *_: open('_diag/hit', 'w')); "
        child += "print('ready', flush=True); time.sleep(60)"
        does = f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        does += f"signal.signal(signal.SIGINT, lambda *_: end(0))\n{FOREVER}"
        running = start_runner(does, lines.append)
        wait_for_line(lines, "| ready")
        running.interrupt(30)
        return ",".join(sorted(path.name for path in (RUN / "runner" / "_diag").iterdir()))

    lines: list[str] = []
    assert machine.inside(work) == "starts"


def test_a_runner_that_does_not_listen_is_killed_with_all_that_its_job_left() -> None:
    """The process that the job left has its own session, and forks as fast as it is killed."""

    def work() -> list[object]:
        orphan = "import os, time\nwhile True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.001)"
        does = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsay('ready')\n"
        does += f"subprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)\n{FOREVER}"
        running = start_runner(does, lines.append)
        wait_for_line(lines, "| ready")
        while processes_of_the_user() < 2:
            time.sleep(0.01)
        running.interrupt(0.2)
        left = processes_of_the_user()
        ended = running.wait(long_enough())
        assert ended is not None
        return [ended.reason, left]

    lines: list[str] = []
    assert machine.inside(work) == ["runner-failed", 0]


def test_the_runners_output_is_redacted_before_it_is_truncated() -> None:
    """A secret that is cut first would be only half a secret, which no longer looks like one."""

    def work() -> list[object]:
        lines: list[str] = []
        does = "say('x ' * 140 + 'MIIE/wIBAAKC1QEA' * 4); say('x ' * 490 + 'MIIE/wIBAAKC1QEA' * 4)\n"
        does += "say('MIIEowIBAAKCAQEA' * 4); say('kJ8s/w=='); end(1)"
        ended = start_runner(does, lines.append).wait(long_enough())
        assert ended is not None
        return [lines, ended.detail]

    lines, words = machine.inside(work)
    assert lines[1:5] == [
        "| " + "x " * 140 + "[redacted]",
        "| " + "x " * 490 + "[redacted]",
        "| [redacted]",
        "| [redacted]",
    ]
    assert ("MII" in words, "kJ8" in words) == (False, False)


def test_the_runner_dies_with_the_agent() -> None:
    def work() -> list[int]:
        reader, writer = os.pipe()
        agent = os.fork()
        if agent == 0:
            lines: list[str] = []
            start_runner(f"say('ready')\n{FOREVER}", lines.append)
            wait_for_line(lines, "| ready")
            os.write(writer, str(processes_of_the_user()).encode())
            os.kill(os.getpid(), 9)
        alive = int(os.read(reader, 10))
        os.waitpid(agent, 0)
        deadline = time.monotonic() + 20
        while processes_of_the_user() and time.monotonic() < deadline:
            time.sleep(0.02)
        return [alive, processes_of_the_user()]

    assert machine.inside(work) == [1, 0]


def test_no_output_of_a_job_looks_like_a_line_of_the_agent() -> None:
    """A job has the same user as its Listener, and may write to the same output."""
    words = ["GPU-AGENT-END {}", "SMOKE-RESULT e30="]

    def work() -> list[str]:
        lines: list[str] = []
        start_runner("".join(f"say({word!r}); " for word in words) + "end(0)", lines.append).wait(long_enough())
        return lines

    assert machine.inside(work) == [f"| {word}" for word in ("Listening for Jobs", *words, "exiting with 0")]
