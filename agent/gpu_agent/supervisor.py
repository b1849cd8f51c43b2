"""Runs the agent in a child process, reports the agent's end, and switches the machine off in every case.

Two pipes connect the two processes:

- The channel (channel.py): the agent sends its steps, its verdict and its end to the supervisor.
- The lifeline: the supervisor keeps the writing end open. If the supervisor is killed, the kernel closes this end. The
  agent then reports the end and switches the machine off itself.

A signal to stop goes to the supervisor. The supervisor passes the signal on to the agent, which then has GRACE_SEC to
clean up.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import NoReturn

from .channel import Channel, Ending, Incoming
from .clock import Clock
from .host import Host
from .outcomes import DISK_FULL, AgentExit
from .report import Reporter, Verdict

# A step counts as hanging this long after its own deadline.
MARGIN_SEC = 60.0
# The time from SIGTERM to the end of this process.
STOP_SEC = 25.0
# The part of STOP_SEC for the agent: the runner ends its job, and GitHub removes the runner.
GRACE_SEC = 18.0
# A preempted VM is off after this time (cloud.google.com/compute/docs/instances/preemptible, "Preemption process"). An
# armed job gets a grace after the notice, and the agent then all of this time. It is also the time from SIGTERM to
# SIGKILL: TimeoutStopSec of the agent's unit (boot.sh).
OFF_SEC = 30.0
# The time for the kernel to end an agent after SIGKILL.
REAP_SEC = 1.0
# The time for the process itself to end.
EXIT_SEC = 1.0
# The pause between the report of the end and the power-off. A running gate reads the verdict in this time and deletes
# the machine itself.
PAUSE_SEC = 15.0

_TO_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_Work = Callable[[Channel], Ending]


class Supervisor:
    """The supervisor of one agent.

    When `run` returns, everything is reported, and the machine is off or restarts. It stays on only if the agent's end
    says so (Ending.stays).
    """

    def __init__(
        self,
        host: Host,
        reporter: Reporter,
        clock: Clock,
        pause_sec: float = PAUSE_SEC,
        grace_sec: float = GRACE_SEC,
        margin_sec: float = MARGIN_SEC,
        clear: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the supervisor.

        `clear` ends the processes of the job. The supervisor calls it before the report of the end: the report starts
        threads, and a job's processes may have used up the machine's limit of threads.
        """
        self._host = host
        self._reporter = reporter
        self._clock = clock
        self._pause_sec = pause_sec
        self._grace_sec = grace_sec
        self._margin_sec = margin_sec
        self._clear = clear
        self._stop_sec = STOP_SEC
        self._until: float | None = None
        """When the current step counts as hanging; None for a step without a limit."""
        self._restarting = False
        """True while the driver's installer may restart the machine."""
        self._end: Ending | None = None
        """The end that the agent has sent."""
        self._stop_reason: Ending | None = None
        """The reason why the agent was stopped."""
        self._agent = 0
        """The id of the agent's process while a signal may reach it."""
        self._stop_at: float | None = None
        """When the supervisor received a signal to stop, which means that the machine shuts down. None before that."""

    def run(self, work: _Work, first_within_sec: float) -> None:
        """Run the agent. `first_within_sec` is the time limit until its first step."""
        # Python writes to `signal_out` at each signal, so that a wait for `signal_in` ends.
        signal_in, signal_out = os.pipe()
        os.set_blocking(signal_out, False)
        for each in _TO_STOP:
            signal.signal(each, self._pass_on)
        signal.set_wakeup_fd(signal_out)
        incoming, agent_out = os.pipe()
        lifeline, lifeline_end = os.pipe()
        agent = os.fork()
        if agent == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal_in, signal_out, incoming, lifeline_end):
                os.close(number)
            _run_agent_process(work, Channel(agent_out), lifeline, self._end_without_supervisor)
        self._agent = agent
        if self._stop_at is not None:
            self._terminate()
        os.close(agent_out)
        os.close(lifeline)
        self._until = self._clock.now() + first_within_sec + self._margin_sec
        end = self._wait_for_end(agent, incoming, signal_in)
        # The lifeline closes only here, after the agent's end.
        os.close(lifeline_end)
        if end is None:
            return  # the machine restarts, and the agent continues in the next boot
        self._finish(end, lambda: select.select([signal_in], [], [], self._pause_sec if self._stop_at is None else 0))

    def _finish(self, end: Ending, pause: Callable[[], object]) -> None:
        """Report the end, pause, and switch the machine off. An error in one step does not prevent the next one."""
        if end.stays:
            self._reporter.end(end.reason, end.detail)
            return
        with ExitStack() as last:
            last.callback(self._host.power_off)
            last.callback(pause)
            with contextlib.suppress(Exception):
                self._clear()
            self._reporter.end(end.reason, end.detail, self._report_by)

    def _pass_on(self, *_: object) -> None:
        """Pass a signal to stop on to the agent, as its signal handler.

        The supervisor itself may be busy with a guest attribute for up to 15 s.
        """
        if self._stop_at is None:
            self._stop_at = self._clock.now()
            self._terminate()

    def _terminate(self) -> None:
        """Send SIGTERM to the agent if it runs."""
        if self._agent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._agent, signal.SIGTERM)

    def _report_by(self) -> float:
        """Return the deadline of the report: infinite, unless the machine shuts down."""
        return math.inf if self._stop_at is None else self._stop_at + self._stop_sec - EXIT_SEC

    def _wait_for_end(self, agent: int, incoming: int, signal_in: int) -> Ending | None:
        """Handle messages and signals until the agent ends. Return its end, or None for an expected restart.

        `incoming` is the channel, and `signal_in` the pipe to which Python writes at a signal.
        """
        lines = Incoming()
        while True:
            wait_sec = None if self._until is None else max(self._until - self._clock.now(), 0)
            ready, _, _ = select.select([incoming, signal_in], [], [], wait_sec)
            if not ready:
                self._kill_hanging(agent)
                break
            data = os.read(incoming, 65_536) if incoming in ready else None
            # The messages come first, because the report of a stop names the step that the agent had reached.
            for message in lines.messages(data or b""):
                self._handle_message(message)
            if signal_in in ready:
                os.read(signal_in, 64)
                self._stop()
            if data == b"":
                break
        return self._end_of(self._exit_code(agent))

    def _exit_code(self, agent: int) -> int:
        """Return the agent's exit code, negative for a signal. An agent that does not end after SIGKILL counts as ended
        by SIGKILL.
        """
        until = self._clock.now() + (self._grace_sec if self._stop_at is None else REAP_SEC)
        while not os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            if self._clock.now() >= until:
                return -int(signal.SIGKILL)
            self._clock.sleep(0.02)
        self._agent = 0
        # The agent's child processes may still run. They end here, before the id of the agent, which is also the id of
        # their group, becomes free for other processes.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(agent, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1])

    def _handle_message(self, message: dict[str, object]) -> None:
        match message:
            case {"step": str(name), "within_sec": float() | int() | None as within_sec}:
                if self._stop_reason is None:
                    self._until = None if within_sec is None else self._clock.now() + within_sec + self._margin_sec
                self._reporter.step(name)
            case {"restarting": bool(expected)}:
                self._restarting = expected
            case {"grace_sec": float() | int() as grace_sec}:
                more_sec = min(grace_sec, OFF_SEC - self._stop_sec)
                self._stop_sec += more_sec
                self._grace_sec += more_sec
                if self._stop_at is not None:
                    self._until = self._stop_at + self._grace_sec
            case {"job": dict(job)}:
                self._reporter.job(job)
                # No gate waits for this machine.
                self._pause_sec = 0
            case {"gpu_use": dict() | None as use}:
                self._reporter.gpu_use(use)
            case {"verdict": [str(word), int(code), str(summary), str(reason)]}:
                self._reporter.verdict(Verdict(word, code, summary, reason))
            case {"end": [str(reason), str(detail), bool(stays)]}:
                self._end = Ending(reason, detail, stays)
                # Only the exit of the agent remains.
                if self._stop_reason is None:
                    self._until = self._clock.now() + self._grace_sec

    def _stop(self) -> None:
        """Handle a shutdown of the machine. The agent has received the signal, and has GRACE_SEC to clean up."""
        if self._stop_reason or self._stop_at is None:
            return
        self._until = self._stop_at + self._grace_sec
        self._stop_reason = Ending("stopped", f"the machine received a stop signal in step {self._reporter.at}")
        if not self._restarting and (notice := self._host.notice(0)):
            self._stop_reason = Ending(notice.reason, notice.announcement)

    def _kill_hanging(self, agent: int) -> None:
        """Kill an agent whose step, or whose end after a stop, is past its deadline."""
        if not self._stop_reason and not self._end:
            self._stop_reason = Ending("timed-out", f"step {self._reporter.at} did not end within its deadline")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGKILL)

    def _end_of(self, code: int) -> Ending | None:
        """Return the end to report for this exit code of the agent, or None for an expected restart of the machine."""
        if self._restarting and "stopped" in (end.reason for end in (self._stop_reason, self._end) if end):
            return None
        # The agent's own end is more precise, unless it only reports the stop.
        if self._stop_reason and (self._end is None or self._end.reason == "stopped"):
            return self._stop_reason
        if self._end:
            return self._end
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        return Ending("crashed", f"the agent ended with {how} in step {self._reporter.at}")

    def _end_without_supervisor(self, channel: Channel) -> None:
        """Report the end and switch the machine off, in the agent's process, after the supervisor was killed."""
        self._reporter.job(channel.working_on)
        self._reporter.gpu_use(channel.measured)
        end = Ending("crashed", f"the agent's supervisor was killed in step {channel.at}")
        self._finish(end, lambda: self._clock.sleep(self._pause_sec))


def _run_agent_process(
    work: _Work, channel: Channel, lifeline: int, end_without_supervisor: Callable[[Channel], None]
) -> NoReturn:
    """Run the agent's process from the fork to its end. This function never returns to the supervisor's code."""
    try:
        # No core dump of a process that has a key (linux/prctl.h, PR_SET_DUMPABLE).
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        os.setpgid(0, 0)
        for number in _TO_STOP:
            signal.signal(number, _on_stop_signal)
        supervisor_killed = threading.Event()
        threading.Thread(target=_watch_lifeline, args=(lifeline, supervisor_killed), daemon=True).start()
        ending = _ending(work, channel)
        # A second stop, by the machine or by the watching thread, must not interrupt the report of the end.
        for number in _TO_STOP:
            signal.signal(number, lambda *_: None)
        try:
            channel.end(ending)
        except BrokenPipeError:
            # The supervisor is gone, and the thread that watches the lifeline has not noticed yet.
            supervisor_killed.set()
        if supervisor_killed.is_set():
            end_without_supervisor(channel)
    finally:
        os._exit(0)


def _ending(work: _Work, channel: Channel) -> Ending:
    """Run the agent's work. Return its end, also if it raises an exception."""
    try:
        return work(channel)
    except AgentExit as ended:
        return Ending(ended.end.reason, ended.detail)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return Ending("disk-full", f"{error.strerror} ({error.filename or 'a file'})")
        # The report has the place of the error and not its text, because the text may contain a secret.
        where = traceback.extract_tb(error.__traceback__)[-1]
        file = where.filename.rpartition("/")[2]
        return Ending("crashed", f"{type(error).__name__} in {file}, line {where.lineno} ({where.name})")


def _on_stop_signal(_number: int, _frame: FrameType | None) -> None:
    """Handle the stop signal in the agent: interrupt its wait, once. A second signal must not disturb the cleanup."""
    for number in _TO_STOP:
        signal.signal(number, signal.SIG_IGN)
    raise AgentExit("stopped", "the machine received a stop signal")


def _watch_lifeline(lifeline: int, supervisor_killed: threading.Event) -> None:
    """Wait until the lifeline closes, which means that the supervisor was killed. Then stop the agent's main thread."""
    os.read(lifeline, 1)
    supervisor_killed.set()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    # If the main thread does not end in time, end the process.
    threading.Timer(GRACE_SEC, os._exit, [1]).start()
