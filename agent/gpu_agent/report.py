"""Reports the machine's steps, the check's verdict and one end: to the serial port, guest attributes and the log."""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import math
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .clock import Clock
from .host import Host
from .outcomes import OUTCOMES
from .redact import Lines, redact

# The limit of one guest attribute. It is our own choice: such a text fits on one screen.
LIMIT_BYTES = 1024
VERDICT, END = "gpu-smoke/verdict", "gpu-agent/end"
_PUBLISH_SEC = 15.0
_LOG_SEC = 5.0
# The time for the last lines on a slow port. A stuck port must not keep the machine on.
_FLUSH_SEC = 2.0
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_REPOSITORY = re.compile(r"[\w.-]{1,39}/[\w.-]{1,100}", re.ASCII)
_ID = re.compile(r"[1-9]\d{0,17}", re.ASCII)


class Verdict(NamedTuple):
    """The verdict of the check, in the form that the gate reads."""

    verdict: str
    """The verdict: pass or fail."""
    exit_code: int
    """gpu_smoke's exit code, or its code for the same kind of problem."""
    summary: str
    reason: str = ""
    """A reason of OUTCOMES. A pass has one only if the machine ends without a job, such as `rehearsed`."""


def clean(text: str) -> str:
    """Return one line without secrets, terminal control characters, and surrogates that UTF-8 cannot encode."""
    return _CONTROL.sub(" ", redact(text)).encode(errors="replace").decode()


def fitted(value: Mapping[str, Any], key: str, limit_bytes: int = LIMIT_BYTES) -> str:
    """Return the value as JSON. The text under `key` is truncated between two characters to fit the limit."""
    text = str(value[key])
    while True:
        encoded = json.dumps({**value, key: text}, ensure_ascii=False, separators=(",", ":"))
        excess = len(encoded.encode(errors="replace")) - limit_bytes
        if excess <= 0 or not text:
            return encoded
        # An escaped character takes at most 6 bytes. If too little is removed, the loop repeats.
        text = text[: -max(excess // 6, 1)]


def job_of(variables: Mapping[str, str]) -> dict[str, str | int] | None:
    """Return the repository, run and attempt of a job from its hook, or None if one is missing or not in GitHub's form.

    The author of the job can change these variables, so the result is only a hint.
    """
    repository, run, attempt = (variables.get(key, "") for key in ("repository", "run_id", "run_attempt"))
    if not (_REPOSITORY.fullmatch(clean(repository)) and _ID.fullmatch(run) and _ID.fullmatch(attempt)):
        return None
    return {"repository": repository, "run": int(run), "attempt": int(attempt)}


def _as_json(verdict: Verdict) -> str:
    return fitted({**verdict._asdict(), "summary": clean(verdict.summary)}, "summary")


class Reporter:
    """Reports each value once. A file in `folder` marks each reported value, also for other processes such as the boot
    script.

    Steps, the verdict and the end go to standard output. With `console` they also go to the serial port itself, because
    a guest agent may write a startup script's output only to the journal. Only the verdict and the end are guest
    attributes, because Google drops values above 10 queries a minute.
    """

    def __init__(
        self,
        host: Host,
        clock: Clock,
        write: Callable[[str], None],
        folder: Path,
        console: Callable[[str], None] | None = None,
    ) -> None:
        self._host = host
        self._clock = clock
        self._output = Serial(write)
        # A separate writer, because a stuck port must not delay the other output.
        self._serial_port = Serial(console) if console else None
        self._lines = Lines()
        self._folder = folder
        self._began = self._step_began = clock.now()
        self._step = "start"
        self._phases: dict[str, float] = {}
        """The seconds of each step until the current one began."""
        self._job: dict[str, str | int] | None = None
        self._gpu_use: Mapping[str, float | None] | None = None

    @property
    def at(self) -> str:
        """The current step of the machine."""
        return self._step

    def say(self, line: str) -> None:
        """Write one line to standard output."""
        self._output.write(clean(self._lines.redact(line)) + "\n")

    def step(self, name: str) -> None:
        """Report that the machine has reached this step."""
        phases = self._phase_seconds()
        self._phases = {**phases, name: phases.get(name, 0.0)}
        self._step, self._step_began = name, self._clock.now()
        value = json.dumps({"step": name, "seconds": self._seconds()})
        self._write_for_programs(f"GPU-AGENT-STEP {value}")

    def job(self, job: Mapping[str, str]) -> None:
        """Store the job of the machine for the report of the end."""
        self._job = job_of(job)

    def gpu_use(self, use: Mapping[str, float | None] | None) -> None:
        """Store what the GPUs did while the job ran (GpuUse.as_json) for the report of the end."""
        self._gpu_use = use

    def verdict(self, verdict: Verdict) -> None:
        """Report the check's verdict. Only the first one counts."""
        value = _as_json(verdict)
        if self._is_first_report("verdict"):
            self._say_verdict(value)
            self._publish(VERDICT, value, _PUBLISH_SEC)

    def end(self, reason: str, detail: str, by: Callable[[], float] = lambda: math.inf) -> None:
        """Report the end of the machine. Only the first report of an end counts.

        Without an earlier verdict, it also reports the verdict `fail`. The exception is the end `used`: such a machine
        checks nothing, and the verdict of its earlier boot remains valid. `by` returns the time when the machine will
        be off. It is called before each slow call.
        """
        end = OUTCOMES[reason]
        if reason == "timed-out" and f"step {self._step}" not in detail:
            detail = f"step {self._step}: {detail}"
        code = 4 if reason in ("check-hung", "timed-out") else 2
        verdict = _as_json(Verdict("fail", code, detail, reason))
        value = {
            "reason": reason,
            "detail": clean(detail),
            "meaning": end.meaning,
            "next_step": end.next_step,
            "stops_pool": end.stops_pool,
            "step": self._step,
            "seconds": self._seconds(),
            "phases": self._phase_seconds(),
            "gpuUse": self._gpu_use,
            "job": self._job,
        }
        text = fitted(value, "detail")
        # Everything that may fail comes before `_is_first_report`, after which no other end is reported.
        if not self._is_first_report("ended"):
            return
        # The serial port comes first, because a preempted machine may end before a slow metadata server answers.
        if fails := reason != "used" and self._is_first_report("verdict"):
            self._say_verdict(verdict)
        self._write_for_programs(f"GPU-AGENT-END {text}")

        def within(sec: float) -> float:
            return max(min(sec, by() - self._clock.now()), 0)

        if fails:
            self._publish(VERDICT, verdict, within(_PUBLISH_SEC))
        self._publish(END, text, within(_PUBLISH_SEC))
        # The runner manager stops machines that wait for a registration, to start them for a later job.
        was_standby = reason == "stopped" and self._step == "register"
        is_success = was_standby or reason in ("job-done", "build-done", "rehearsed", "proven", "idle", "used")
        self._host.log("INFO" if is_success else "ERROR", f"{reason}: {value['detail']}", within(_LOG_SEC), **value)
        self._output.flush(within(_FLUSH_SEC))
        if self._serial_port:
            self._serial_port.flush(within(_FLUSH_SEC))

    def _say_verdict(self, value: str) -> None:
        self._write_for_programs(f"SMOKE-RESULT {base64.b64encode(value.encode()).decode()}")

    def _write_for_programs(self, line: str) -> None:
        """Write one line that programs read, such as the gate, to all outputs."""
        if self._serial_port:
            # Another writer to the device, such as a login prompt, may have left an incomplete line.
            self._serial_port.write(f"\n{line}\n")
        self._output.write(f"{line}\n")

    def _publish(self, key: str, value: str, within_sec: float) -> None:
        try:
            self._host.publish(key, value, within_sec)
        except Exception as error:
            # Any error is reported and ignored: the remaining reports and the machine's end must follow.
            self.say(f"gpu-agent: the guest attribute {key} could not be written: {error}")

    def _is_first_report(self, what: str) -> bool:
        """Return True if no process of this machine has made this report (verdict or ended) yet."""
        try:
            os.close(os.open(self._folder / what, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError:
            # A full or missing disk must not prevent the report.
            return True
        return True

    def _phase_seconds(self) -> dict[str, float]:
        """Return the seconds of each step of this boot until now."""
        current_sec = self._clock.now() - self._step_began
        return {
            name: round(seconds + (current_sec if name == self._step else 0.0), 1)
            for name, seconds in self._phases.items()
        }

    def _seconds(self) -> float:
        return round(self._clock.now() - self._began, 1)


# "It's better to write to /dev/ttyS0 directly" (GoogleCloudPlatform/compute-image-tools#373). If a kernel has no such
# port, its console may lead to another one.
_DEVICES = ("/dev/ttyS0", "/dev/console")
_WAIT_SEC = 1.0
_MOST_LINES = 256


class Serial:
    """Writes lines in order, in a thread that each process starts with its first line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._begin()
        # A thread does not survive a fork, and its locks stay locked in the child.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        # If the port is stuck, the oldest lines are dropped, because the last line matters most.
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._writing = False
        self._stuck = False
        self._thread = threading.Thread()

    def write(self, text: str) -> None:
        """Write the text, and wait for it up to a second. If the port is stuck, return at once.

        The lines of two processes therefore keep their order, and no step waits for a reader of the port.
        """
        with self._changed:
            if not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            self._lines.append(text)
            self._changed.notify_all()
        if not self._stuck:
            self._stuck = not self.flush(_WAIT_SEC)

    def flush(self, within_sec: float) -> bool:
        """Return True if everything is written in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, within_sec)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                if not self._lines:
                    self._stuck = False
                    self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                text, self._writing = self._lines.popleft(), True
            # The port is closed or cannot encode the text. No other place could receive the error.
            with contextlib.suppress(Exception):
                self._write(text)


def console(environ: Mapping[str, str]) -> Callable[[str], None] | None:
    """Return the function that writes to the serial port, or None in a sandbox.

    A sandbox names the device in GPU_AGENT_CONSOLE.
    """
    if named := environ.get("GPU_AGENT_CONSOLE"):
        return Device((named,)).write
    return None if {"GCE_METADATA_HOST", "GPU_AGENT_BOOT"} & environ.keys() else Device(_DEVICES).write


class Device:
    """The first of these paths that is a terminal and accepts the text. Raises OSError without one."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def write(self, text: str) -> None:
        """Write all of the text. The device is opened each time, so that no child inherits it."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                # Without O_NOCTTY the device could become this process's terminal. Without O_NONBLOCK the open waits
                # for a carrier.
                number = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
                try:
                    if not os.isatty(number):
                        continue
                    os.set_blocking(number, True)
                    remaining = text.encode(errors="replace")
                    while remaining:
                        remaining = remaining[os.write(number, remaining) :]
                    return
                finally:
                    os.close(number)
        raise OSError("the machine has no serial port")
