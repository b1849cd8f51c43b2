"""What the machine reports of itself: the step it is at, the check's verdict, and one end."""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .clock import Clock
from .host import Host
from .machine.serial_port import Serial
from .outcomes import OUTCOMES
from .redact import Lines, redact

# Of one guest attribute: a bound of ours, as whoever reads it wants one screen.
LIMIT_BYTES = 1024
VERDICT, END = "gpu-smoke/verdict", "gpu-agent/end"
_PUBLISH_SEC = 15.0
_LOG_SEC = 5.0
# The last lines, on a port that is slow; one that nobody reads must not keep the machine on.
_FLUSH_SEC = 2.0
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Verdict(NamedTuple):
    """What the check proved, as the gate reads it."""

    verdict: str
    """pass or fail."""
    exit_code: int
    """gpu_smoke's, or the code it has for the same kind of trouble."""
    summary: str
    reason: str = ""
    """Of OUTCOMES; of a pass, what the machine ends with or nothing."""


def clean(text: str) -> str:
    """One line, without secrets, what could command a terminal, and halves of characters, which UTF-8 cannot say."""
    return _CONTROL.sub(" ", redact(text)).encode(errors="replace").decode()


def fitted(value: Mapping[str, Any], key: str, limit_bytes: int = LIMIT_BYTES) -> str:
    """The value as JSON, with the text under `key` cut, between two characters, to what leaves it within the limit."""
    text = str(value[key])
    while True:
        made = json.dumps({**value, key: text}, ensure_ascii=False, separators=(",", ":"))
        over = len(made.encode(errors="replace")) - limit_bytes
        if over <= 0 or not text:
            return made
        # A character takes at most 6 bytes, escaped; cutting too little only means another round.
        text = text[: -max(over // 6, 1)]


def _as_json(verdict: Verdict) -> str:
    return fitted({**verdict._asdict(), "summary": clean(verdict.summary)}, "summary")


class Reporter:
    """Reports each thing once; `folder` is where another process, such as the boot script, sees what was reported.

    Steps, the verdict and the end go to standard output and, with `console`, to the serial port itself: a guest agent
    may log a startup script's output to the journal alone. Only the verdict and the end are guest attributes, because
    Google drops values above 10 queries a minute.
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
        self._serial = Serial(write)
        # A port of its own: one that is stuck must not hold up the other.
        self._console = Serial(console) if console else None
        self._lines = Lines()
        self._folder = folder
        self._began = clock.now()
        self._step = "start"
        self._job: dict[str, str] = {}

    @property
    def at(self) -> str:
        """The step the machine is at."""
        return self._step

    def say(self, line: str) -> None:
        """One line for the serial port."""
        self._serial.write(clean(self._lines.redact(line)) + "\n")

    def step(self, name: str) -> None:
        """The machine has come to this step."""
        self._step = name
        value = json.dumps({"step": name, "seconds": self._seconds()})
        self._mark(f"GPU-AGENT-STEP {value}")

    def job(self, job: Mapping[str, str]) -> None:
        """What the machine works on, for the end to name."""
        self._job = {key: clean(job[key])[:80] for key in ("repository", "run_id", "job") if job.get(key)}

    def verdict(self, verdict: Verdict) -> None:
        """The check's; only the first one counts."""
        value = _as_json(verdict)
        if self._first("verdict"):
            self._say_verdict(value)
            self._publish(VERDICT, value, _PUBLISH_SEC)

    def end(self, reason: str, detail: str, by: Callable[[], float] = lambda: math.inf) -> None:
        """The machine ends for this reason; only the first one counts. Without a verdict before it, that is a fail.

        `by` says when the machine is going to be off, and is asked before each call that may take long.
        A used machine checks nothing, so that what an earlier boot of it proved still holds.
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
            **({"job": self._job} if self._job else {}),
        }
        text = fitted(value, "detail")
        # All of it is made by now: nothing may fail between the claim to say it and its being said.
        if not self._first("ended"):
            return
        # All of it on the serial port first: a machine that is taken away may not outlive a slow metadata server.
        if fails := reason != "used" and self._first("verdict"):
            self._say_verdict(verdict)
        self._mark(f"GPU-AGENT-END {text}")

        def within(sec: float) -> float:
            return max(min(sec, by() - self._clock.now()), 0)

        if fails:
            self._publish(VERDICT, verdict, within(_PUBLISH_SEC))
        self._publish(END, text, within(_PUBLISH_SEC))
        # The runner manager stops machines that wait for a registration, to start them for a later job.
        waited = reason == "stopped" and self._step == "register"
        good = waited or reason in ("job-done", "rehearsed", "proven", "idle", "used")
        self._host.log("INFO" if good else "ERROR", f"{reason}: {value['detail']}", within(_LOG_SEC), **value)
        self._serial.flush(within(_FLUSH_SEC))
        if self._console:
            self._console.flush(within(_FLUSH_SEC))

    def _say_verdict(self, value: str) -> None:
        self._mark(f"SMOKE-RESULT {base64.b64encode(value.encode()).decode()}")

    def _mark(self, line: str) -> None:
        """One line that programs read."""
        if self._console:
            # Another writer to the device, such as a login prompt, may have left half a line there.
            self._console.write(f"\n{line}\n")
        self._serial.write(f"{line}\n")

    def _publish(self, key: str, value: str, within_sec: float) -> None:
        try:
            self._host.publish(key, value, within_sec)
        except Exception as error:
            # Whatever it is: what comes after it is still to be said, and the machine to be ended.
            self.say(f"gpu-agent: the guest attribute {key} could not be written: {error}")

    def _first(self, what: str) -> bool:
        """Whether nobody has said it yet, on this machine and in whichever process."""
        try:
            os.close(os.open(self._folder / what, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError:
            # A disk that is full or gone must not keep the machine from saying so.
            return True
        return True

    def _seconds(self) -> float:
        return round(self._clock.now() - self._began, 1)
