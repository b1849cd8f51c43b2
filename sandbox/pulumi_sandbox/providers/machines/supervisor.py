"""Run the startup script of one VM, and stop every process it started. Runs as a script, standard library only.

- Standard input: the first line is a JSON object (script, environment, path, journal, disk). When the stream ends, the
  VM is switched off. The stream ends when the parent process closes it or dies.
- Standard output: the serial port of the VM.
- SIGTERM switches the VM off. `shutdown` and `poweroff` inside the VM send it.
- SIGUSR1 and SIGUSR2 are an ACPI soft off: the script gets SIGTERM and has 30 s or 90 s to exit.
- The files in the folder `disk` are kept for the next boot of the VM.
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
# The time from the ACPI G2 soft off to the ACPI G3 mechanical off of a preempted VM
# (cloud.google.com/compute/docs/instances/preemptible, "Preemption process").
PREEMPTION_SEC = 30.0
# The same time for a VM that its user stops. The sandbox sets this limit; a stop of a real VM took as long
# (github.com/skypilot-org/skypilot/pull/2587).
SHUTDOWN_SEC = 90.0
SOFT_OFF = {signal.SIGUSR1: PREEMPTION_SEC, signal.SIGUSR2: SHUTDOWN_SEC}
# The placeholder in a VM's environment for the device of its serial port.
PORT_PLACEHOLDER = "${serialPort}"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
OFF_COMMANDS = {
    "shutdown": "powered off",
    "poweroff": "powered off",
    "halt": "halted",
    "reboot": "stopped, not restarted",
}
OFF_COMMAND_SCRIPT = """#!/bin/sh
for word in "$@"; do case "$word" in
  -c) exit 0 ;;
  +*) minutes="${{word#+}}" ;;
esac; done
if [ "${{minutes:-0}}" != 0 ]; then
  (sleep "$((minutes * 60))"; kill -TERM {pid}) >/dev/null 2>&1 &
  exit 0
fi
echo "{name}: {message}"
kill -TERM {pid}
"""


def prctl(option: int, value: int) -> None:
    """Call prctl on Linux. On other systems, only the end of standard input stops the VM."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def say(line: str) -> None:
    # Write each line in one call, because two threads print: one for the script's output, one for the serial port.
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class SerialPort:
    """A pseudoterminal instead of /dev/ttyS0. Each line written to it is copied to the serial port."""

    def __init__(self) -> None:
        # The slave stays open here, because on Linux a read from the master fails while no process has it open.
        self._master, self._slave = os.openpty()
        self.path = os.ttyname(self._slave)
        os.set_blocking(self._master, False)
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._serve, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Copy the remaining output and stop."""
        self._closed.set()
        self._reader.join(timeout=GRACE_SEC)

    def _serve(self) -> None:
        partial_line = b""
        while True:
            ready, _, _ = select.select([self._master], [], [], 0.1)
            data = b""
            with contextlib.suppress(OSError):
                data = os.read(self._master, 65_536) if ready else b""
            *lines, partial_line = (partial_line + data).split(b"\n")
            for line in lines:
                say(line.decode(errors="replace"))
            if not ready and self._closed.is_set():
                return


def prepare(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """Create the folders of the VM's disk and of its temporary files. Return the script's environment."""
    off_commands = folder / "sbin"
    off_commands.mkdir()
    for name, message in OFF_COMMANDS.items():
        (off_commands / name).write_text(OFF_COMMAND_SCRIPT.format(pid=os.getpid(), name=name, message=message))
        (off_commands / name).chmod(0o755)
    disk = Path(settings.get("disk") or folder / "disk")
    home = disk / "root"
    home.mkdir(parents=True, exist_ok=True)
    disk.chmod(0o700)
    (folder / "tmp").mkdir()
    (folder / "startup-script").write_text(settings["script"])
    paths = os.pathsep.join([str(off_commands), *settings["path"]])
    vm_variables = {"PATH": paths, "HOME": str(home), "TMPDIR": str(folder / "tmp")}
    return {**settings["environment"], **vm_variables}


def port_of(environment: dict[str, str]) -> SerialPort | None:
    """Return the VM's serial port if its environment has the placeholder, and replace the placeholder by the device."""
    names = [name for name, value in environment.items() if PORT_PLACEHOLDER in value]
    if not names:
        return None
    port = SerialPort()
    for name in names:
        environment[name] = environment[name].replace(PORT_PLACEHOLDER, port.path)
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


def copy_output(guest: subprocess.Popen[bytes], journal: bool) -> None:
    """Copy the output of the script to the serial port, like most guest agents.

    With `journal` the output is dropped, as with a guest agent that logs to the system's journal only.
    """
    assert guest.stdout is not None  # noqa: S101 -- it was opened as a pipe
    for line in guest.stdout:
        if not journal:
            say("startup-script: " + line.decode(errors="replace").rstrip("\r\n"))


def report_script_end(guest: subprocess.Popen[bytes], reader: threading.Thread, off: threading.Event) -> None:
    """Print the same lines as Google's guest agent at the end of the script (google_metadata_script_runner)."""
    code = guest.wait()
    reader.join(timeout=GRACE_SEC)
    if off.is_set():
        return  # the agent of a VM that is shutting down prints nothing
    if code:
        say(f'Script "startup-script" failed with error: exit status {code}')
    say("Finished running startup scripts.")


def wait_for_parent(requests: int) -> None:
    sys.stdin.buffer.read()
    os.write(requests, bytes([signal.SIGTERM]))


def children() -> list[int]:
    """Return the child processes of this process. As a subreaper, it is also the parent of processes that left the
    script's session.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat") if Path("/proc/self/stat").exists() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def end(guest: subprocess.Popen[bytes], grace_sec: float) -> None:
    """Send SIGTERM to the script's session, SIGKILL after the grace period, then SIGKILL to all remaining processes."""
    for signal_number, seconds in ((signal.SIGTERM, grace_sec), (signal.SIGKILL, GRACE_SEC)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(guest.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            guest.wait(timeout=seconds)
    deadline = time.monotonic() + GRACE_SEC
    while (remaining := children()) and time.monotonic() < deadline:
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def main() -> int:
    off = threading.Event()
    # Each request to switch the VM off is a byte with the number of its signal. A handler in Python runs only after the
    # wait of this thread has ended, and a signal that arrives just before a wait on a queue or a lock does not end it.
    requests, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    grace = {signal.SIGTERM: GRACE_SEC, **SOFT_OFF}
    for number in grace:
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the engine stops the provider, which stops this process
    settings = json.loads(sys.stdin.buffer.readline())
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    folder = Path(tempfile.mkdtemp(prefix="pulumi-sandbox-vm-"))
    try:
        environment = prepare(folder, settings)
        port = port_of(environment)
        guest = start(folder, environment)
        reader = threading.Thread(target=copy_output, args=(guest, settings["journal"]), daemon=True)
        reader.start()
        threading.Thread(target=report_script_end, args=(guest, reader, off), daemon=True).start()
        threading.Thread(target=wait_for_parent, args=(wakeup,), daemon=True).start()
        number = signal.Signals(os.read(requests, 1)[0])
        off.set()
        end(guest, grace[number])
        reader.join(timeout=1)
        if port:
            port.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads may still wait on streams that no process will write to
