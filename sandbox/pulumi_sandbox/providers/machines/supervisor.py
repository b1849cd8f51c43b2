"""Runs one virtual machine's startup script and ends everything it started; standard library only, run as a script.

Its standard input is the lifeline: the first line is a JSON object (script, environment, path, journal, disk), and when
the stream ends, because whoever started it closed it or died, however suddenly, the machine is switched off. Its
standard output is the machine's serial port. `shutdown` and `poweroff` inside the machine send it SIGTERM. SIGUSR1 and
SIGUSR2 are an ACPI soft off: the script is told to end and has 30 s or 90 s for that. What the machine leaves in the
folder `disk` is there at its next boot.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

GRACE_SEC = 3.0
# From the ACPI G2 soft off to the ACPI G3 mechanical off of a preempted VM (cloud.google.com/compute/docs/instances/
# preemptible, "Preemption process").
PREEMPTION_SEC = 30.0
# The same of a VM that its user stops: a bound of the sandbox's own. A stop of a real one took as long
# (github.com/skypilot-org/skypilot/pull/2587).
SHUTDOWN_SEC = 90.0
SOFT_OFF = {signal.SIGUSR1: PREEMPTION_SEC, signal.SIGUSR2: SHUTDOWN_SEC}
# In the environment of a machine: the device of its serial port.
PORT = "${serialPort}"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SWITCHES = {"shutdown": "powered off", "poweroff": "powered off", "halt": "halted", "reboot": "stopped, not restarted"}
SWITCH = """#!/bin/sh
for word in "$@"; do case "$word" in
  -c) exit 0 ;;
  +*) minutes="${{word#+}}" ;;
esac; done
if [ "${{minutes:-0}}" != 0 ]; then
  (sleep "$((minutes * 60))"; kill -TERM {pid}) >/dev/null 2>&1 &
  exit 0
fi
echo "{name}: {what}"
kill -TERM {pid}
"""


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the lifeline does the work alone."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def say(line: str) -> None:
    # One write a line: the script's output and the serial port are read in two threads.
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class SerialPort:
    """A terminal in the place of /dev/ttyS0. What is written to it goes to the serial port, line by line."""

    def __init__(self) -> None:
        # The slave stays open here: reading a terminal that no process has open fails on Linux.
        self._master, self._slave = os.openpty()
        self.path = os.ttyname(self._slave)
        os.set_blocking(self._master, False)
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._serve, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Copy what was written until now, and end."""
        self._closed.set()
        self._reader.join(timeout=GRACE_SEC)

    def _serve(self) -> None:
        rest = b""
        while True:
            ready, _, _ = select.select([self._master], [], [], 0.1)
            piece = b""
            with contextlib.suppress(OSError):
                piece = os.read(self._master, 65_536) if ready else b""
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                say(line.decode(errors="replace"))
            if not ready and self._closed.is_set():
                return


def prepare(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """The machine's disk, in small, and what is gone with its power; returns the script's environment."""
    switches = folder / "sbin"
    switches.mkdir()
    for name, what in SWITCHES.items():
        (switches / name).write_text(SWITCH.format(pid=os.getpid(), name=name, what=what))
        (switches / name).chmod(0o755)
    disk = Path(settings.get("disk") or folder / "disk")
    home = disk / "root"
    home.mkdir(parents=True, exist_ok=True)
    disk.chmod(0o700)
    (folder / "tmp").mkdir()
    (folder / "startup-script").write_text(settings["script"])
    paths = os.pathsep.join([str(switches), *settings["path"]])
    own = {"PATH": paths, "HOME": str(home), "TMPDIR": str(folder / "tmp")}
    return {**settings["environment"], **own}


def port_of(environment: dict[str, str]) -> SerialPort | None:
    """The machine's serial port, where its environment names it; the name is replaced by the device."""
    named = [name for name, value in environment.items() if PORT in value]
    if not named:
        return None
    port = SerialPort()
    for name in named:
        environment[name] = environment[name].replace(PORT, port.path)
    return port


def start(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", str(folder / "startup-script")],
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
    )


def serial(guest: subprocess.Popen[bytes], journal: bool) -> None:
    """Copy what the script prints to the serial port, as most guest agents do.

    With `journal` it goes nowhere, as with a guest agent that logs to the system's journal alone.
    """
    assert guest.stdout is not None  # noqa: S101 -- it was opened as a pipe
    for line in guest.stdout:
        if not journal:
            say("startup-script: " + line.decode(errors="replace").rstrip("\r\n"))


def outcome(guest: subprocess.Popen[bytes], reader: threading.Thread, off: threading.Event) -> None:
    """What Google's guest agent prints when the script ends (google_metadata_script_runner)."""
    code = guest.wait()
    reader.join(timeout=GRACE_SEC)
    if off.is_set():
        return  # a machine that is going down has no agent to print anything
    if code:
        say(f'Script "startup-script" failed with error: exit status {code}')
    say("Finished running startup scripts.")


def lifeline(off: threading.Event) -> None:
    sys.stdin.buffer.read()
    off.set()


def children() -> list[int]:
    """Processes whose parent is this one: with the subreaper set, whatever escaped from the script's session too."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat") if Path("/proc/self/stat").exists() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def end(guest: subprocess.Popen[bytes], grace_sec: float) -> None:
    """TERM to the script's session, KILL after its time, then whatever is left."""
    for number, seconds in ((signal.SIGTERM, grace_sec), (signal.SIGKILL, GRACE_SEC)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(guest.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            guest.wait(timeout=seconds)
    until = time.monotonic() + GRACE_SEC
    while (left := children()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def main() -> int:
    off = threading.Event()
    grace_sec = GRACE_SEC

    def soft_off(number: int, _: object) -> None:
        nonlocal grace_sec
        grace_sec = SOFT_OFF[signal.Signals(number)]
        off.set()

    signal.signal(signal.SIGTERM, lambda *_: off.set())
    for number in SOFT_OFF:
        signal.signal(number, soft_off)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the engine, which ends its providers, which end this
    settings = json.loads(sys.stdin.buffer.readline())
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    folder = Path(tempfile.mkdtemp(prefix="pulumi-sandbox-vm-"))
    try:
        environment = prepare(folder, settings)
        port = port_of(environment)
        guest = start(folder, environment)
        reader = threading.Thread(target=serial, args=(guest, settings["journal"]), daemon=True)
        reader.start()
        threading.Thread(target=outcome, args=(guest, reader, off), daemon=True).start()
        threading.Thread(target=lifeline, args=(off,), daemon=True).start()
        off.wait()
        end(guest, grace_sec)
        reader.join(timeout=1)
        if port:
            port.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads may still be waiting on streams that nobody will write to
