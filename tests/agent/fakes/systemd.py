"""systemd as a Compute Engine VM has it: units that a stop of the machine and an OOM kill reach, each in its own way.

It follows systemd.kill(5), systemd.service(5) and systemd-run(1); `test_systemd.py` compares it with a real systemd.
The startup script's unit is Google's (GoogleCloudPlatform/guest-agent@df9d203 and google-guest-agent@1adda70,
google-startup-scripts.service): KillMode=process, no OOMPolicy, and a script runner that forwards no signal
(google_metadata_script_runner/main.go, runCmd).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.agent.fakes import processes

BOOTED = Path("/run/systemd/system")
DEFAULTS = {"KillMode": "control-group", "OOMPolicy": "stop", "FailureAction": "none", "TimeoutStopSec": "90"}
STARTUP = {"KillMode": "process", "StandardOutput": "journal+console"}
# From the first SIGTERM of systemd-shutdown's last sweep to its SIGKILL; a machine's is DefaultTimeoutStopSec, 90 s.
_SWEEP_SEC = 1.0
# As google_metadata_script_runner does it: what the script prints goes on line by line, and no signal does.
_SCRIPT_RUNNER = """
import subprocess, sys
script = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
for line in script.stdout:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
script.wait()
"""


class Unit(NamedTuple):
    """A service that was started."""

    main: int
    properties: Mapping[str, str]

    def says(self, name: str) -> str:
        """A property of it, or systemd's default."""
        return self.properties.get(name, DEFAULTS.get(name, ""))

    @property
    def status(self) -> int | None:
        """The wait status of its main process once that has ended."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, self.main, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended.si_status if ended else None
        return None if Path(f"/proc/{self.main}").exists() else 0


class Systemd:
    """One machine's. It is the first process of the machine's process namespace, so orphans become its children."""

    def __init__(self, folder: Path, environ: Mapping[str, str], network_down: Callable[[], None]) -> None:
        """`environ` is what the image gives every service; `network_down` runs when the network's units stop."""
        self.folder = folder
        self.console = folder / "console"
        self.off = False
        """The machine is off, by systemd."""
        self._environ, self._network_down = environ, network_down
        self._failed: set[int] = set()
        self._stopping: threading.Thread | None = None
        folder.mkdir(exist_ok=True)
        (folder / "environ").write_text(json.dumps(dict(environ)))
        self.console.unlink(missing_ok=True)
        os.mkfifo(self.console)
        for each in folder.glob("*.unit"):
            each.unlink()

    def start_script(self, command: Sequence[str]) -> None:
        """Run google-startup-scripts.service with this script."""
        self.runner = self.run_script(command)
        (self.folder / "google-startup-scripts.unit").write_text(json.dumps([self.runner.pid, STARTUP]))

    def run_script(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Run google_metadata_script_runner, as its unit does, and people who want a script to run again."""
        with self.console.open("wb") as console:
            return subprocess.Popen(
                [sys.executable, "-c", _SCRIPT_RUNNER, *command],
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def unit(self, name: str) -> Unit | None:
        """A unit that was started; None where there was none of this name."""
        file = self.folder / f"{name}.unit"
        return Unit(*json.loads(file.read_text())) if file.exists() else None

    def units(self) -> dict[str, Unit]:
        """Those that run, by name."""
        found = {file.stem: Unit(*json.loads(file.read_text())) for file in self.folder.glob("*.unit")}
        return {name: unit for name, unit in found.items() if unit.status is None}

    def look(self, apart: set[int]) -> None:
        """End what outlives the main process of a transient unit, and act on its failure."""
        unit = self.unit("gpu-agent")
        if unit is None or unit.status is None or unit.main in self._failed:
            return
        self._failed.add(unit.main)
        if unit.says("KillMode") in ("mixed", "control-group"):
            processes.kill_all_but(apart | {self.runner.pid})
        self.off = bool(unit.status) and unit.says("FailureAction") == "poweroff"

    def stop(self, apart: set[int]) -> None:
        """The machine goes down: its units stop, then its network, then whatever still runs; it returns at once."""
        self._stopping = threading.Thread(target=self._stop, args=(apart,), daemon=True)
        self._stopping.start()

    def _stop(self, apart: set[int]) -> None:
        stopping = [threading.Thread(target=self._stop_unit, args=(unit, apart)) for unit in self.units().values()]
        for each in stopping:
            each.start()
        for each in stopping:
            each.join()
        self._network_down()
        for number in processes.numbers() - apart:
            _signal(number, signal.SIGTERM)
        until = time.monotonic() + _SWEEP_SEC
        while time.monotonic() < until and any(processes.children().get(each) for each in apart):
            time.sleep(0.02)
        self.off = True

    def _stop_unit(self, unit: Unit, apart: set[int]) -> None:
        """By its KillMode: `process` and `mixed` signal the main process alone; `mixed` kills the others after it."""
        kill_mode = unit.says("KillMode")
        members = processes.numbers() - apart if kill_mode == "control-group" else {unit.main}
        for number in members:
            _signal(number, signal.SIGTERM)
        until = time.monotonic() + float(unit.says("TimeoutStopSec"))
        while unit.status is None and time.monotonic() < until:
            time.sleep(0.02)
        if kill_mode == "process":
            _signal(unit.main, signal.SIGKILL)
        else:
            processes.kill_all_but(apart | {self.runner.pid})

    def oom_killed(self, apart: set[int]) -> None:
        """The kernel has killed a process for want of memory: what the OOMPolicy of its unit does about it."""
        unit = self.unit("gpu-agent") or self.unit("google-startup-scripts")
        if unit and unit.says("OOMPolicy") == "stop":
            self._stop_unit(unit, apart)

    def close(self) -> None:
        """Wait for what a stop still does: it must not reach into the next boot."""
        if self._stopping:
            self._stopping.join(_SWEEP_SEC + 5)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
