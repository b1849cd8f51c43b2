"""A fake systemd of a Compute Engine VM: its units, and how a stop of the machine ends them.

It follows systemd.kill(5), systemd.service(5) and systemd-run(1).
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
DEFAULTS = {"KillMode": "control-group", "FailureAction": "none", "TimeoutStopSec": "90"}
STARTUP = {"KillMode": "process", "StandardOutput": "journal+console"}
# The time from the first SIGTERM of systemd-shutdown's last step to its SIGKILL. A real machine uses
# DefaultTimeoutStopSec, 90 s.
_SWEEP_SEC = 1.0
# As google_metadata_script_runner does: it forwards the script's output line by line, and no signal.
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
        """Return a property of the unit, or systemd's default."""
        return self.properties.get(name, DEFAULTS.get(name, ""))

    @property
    def status(self) -> int | None:
        """Return the wait status of its main process after the process has ended."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, self.main, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended.si_status if ended else None
        return None if Path(f"/proc/{self.main}").exists() else 0


class Systemd:
    """The systemd of one machine. It is the first process of the process namespace, so it adopts orphans."""

    def __init__(self, folder: Path, environ: Mapping[str, str], network_down: Callable[[], None]) -> None:
        """Create it. `environ` is the environment that the image gives every service. `network_down` runs when the
        network stops.
        """
        self.folder = folder
        self.console = folder / "console"
        self.off = False
        """True if systemd has switched the machine off."""
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
        """Run google_metadata_script_runner, as its unit does, or as a user who wants the script to run again."""
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
        """Return the unit of this name that was started, or None."""
        file = self.folder / f"{name}.unit"
        return Unit(*json.loads(file.read_text())) if file.exists() else None

    def units(self) -> dict[str, Unit]:
        """Return the running units by name."""
        found = {file.stem: Unit(*json.loads(file.read_text())) for file in self.folder.glob("*.unit")}
        return {name: unit for name, unit in found.items() if unit.status is None}

    def look(self, apart: set[int]) -> None:
        """End the processes that outlive the main process of a transient unit, and apply its reaction to a failure."""
        unit = self.unit("gpu-agent")
        if unit is None or unit.status is None or unit.main in self._failed:
            return
        self._failed.add(unit.main)
        if unit.says("KillMode") in ("mixed", "control-group"):
            processes.kill_all_but(apart | {self.runner.pid})
        self.off = bool(unit.status) and unit.says("FailureAction") == "poweroff"

    def stop(self, apart: set[int]) -> None:
        """Shut the machine down and return at once: its units stop, then its network, then all other processes."""
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
        """Stop a unit by its KillMode. `process` and `mixed` signal only the main process; `mixed` then kills the
        others.
        """
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

    def close(self) -> None:
        """Wait for a stop in progress, so that it does not reach into the next boot."""
        if self._stopping:
            self._stopping.join(_SWEEP_SEC + 5)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
