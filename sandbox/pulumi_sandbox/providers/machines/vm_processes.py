"""Boot VMs of the sandbox. The startup script of a VM runs as a local process until the VM is switched off.

A supervisor process (supervisor.py) runs each script, so that all its processes end with the VM.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.metadata import Machine, MetadataServer
from pulumi_sandbox.providers.machines.settings import GuestSettings

SUPERVISOR = Path(__file__).with_name("supervisor.py")
# Discovery document compute v1, instances.getSerialPortOutput: "the last 1 MB of serial port output".
SERIAL_BYTES = 1024 * 1024
FLUSH_SEC = 0.2
STOP_SEC = 15.0


@dataclass(frozen=True)
class Boot:
    """One VM to boot, with the callbacks for its output and its end."""

    id: str
    script: str
    machine: Machine | None
    """The data of its metadata server, or None without one."""
    environment: dict[str, str]
    limit_sec: float | None
    disk: Path
    """The folder with the files that the VM keeps for its next boot."""
    serial: Callable[[str], None]
    """Called with new output of the serial port."""
    ended: Callable[[bool], None]
    """Called when the VM is off, with True if its time limit switched it off."""


class VmProcesses:
    """The VMs of this process. They end with the process, also after a crash."""

    def __init__(self, settings: GuestSettings, services: LocalServices) -> None:
        self.settings = settings
        self._services = services
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._watchers: list[threading.Thread] = []
        self._lock = threading.Lock()

    def boot(self, boot: Boot) -> dict[str, Any]:
        """Start the VM. Return its process ID and start time, by which another process can check that it runs."""
        server = MetadataServer(boot.machine) if boot.machine else None
        environment = {
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            **({"GCE_METADATA_HOST": server.address} if server else {}),
            **self.settings.environment,
            **self._services.with_addresses(self.settings.addresses),
            **boot.environment,
        }
        process = start_supervised(
            boot.script, environment, self.settings.path, journal=self.settings.journal, disk=str(boot.disk)
        )
        watcher = threading.Thread(target=self._watch, args=(boot, process, server), name="guest", daemon=True)
        with self._lock:
            self._running[boot.id] = process
            self._watchers = [*(each for each in self._watchers if each.is_alive()), watcher]
            watcher.start()
        return {"pid": process.pid, "started": start_time(process.pid)}

    def _watch(self, boot: Boot, process: subprocess.Popen[bytes], server: MetadataServer | None) -> None:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            stop(process.pid, start_time(process.pid))

        timer = threading.Timer(boot.limit_sec, expire) if boot.limit_sec else None
        if timer:
            timer.daemon = True
            timer.start()
        try:
            self._copy(boot, process)
            process.wait()
        finally:
            if timer:
                timer.cancel()
            boot.ended(expired.is_set())
            with self._lock:
                if self._running.get(boot.id) is process:
                    del self._running[boot.id]
            if server:
                server.close()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if stream:
                        stream.close()

    def _copy(self, boot: Boot, process: subprocess.Popen[bytes]) -> None:
        """Copy the serial port in batches, to limit the writes to the world to a few a second."""
        assert process.stdout is not None  # noqa: S101 -- it was opened as a pipe
        text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while output := os.read(process.stdout.fileno(), SERIAL_BYTES):
            boot.serial(text.decode(output))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(FLUSH_SEC)

    def runs(self, machine: str) -> bool:
        """Return True if this process runs the VM or is still recording its end."""
        with self._lock:
            return machine in self._running

    def close(self) -> None:
        """Switch every VM off and wait for its end."""
        with self._lock:
            running, watchers = list(self._running.values()), list(self._watchers)
        for process in running:
            with contextlib.suppress(OSError):
                if process.stdin:
                    process.stdin.close()
        for thread in watchers:
            thread.join(timeout=STOP_SEC)
        self._services.close()


def start_supervised(
    script: str, environment: Mapping[str, str], folders: Iterable[str], *, journal: bool = False, disk: str = ""
) -> subprocess.Popen[bytes]:
    """Start a script under a supervisor, with these folders at the front of its PATH.

    With `journal` its output is not on the serial port. Without `disk` it has no files of an earlier boot. When the
    standard input of the supervisor is closed, every process that the script started is stopped.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SUPERVISOR)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 -- it was opened as a pipe
    path = [*folders, *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    settings = {"script": script, "environment": dict(environment), "path": path, "journal": journal, "disk": disk}
    process.stdin.write(json.dumps(settings).encode() + b"\n")
    process.stdin.flush()
    return process


def start_time(pid: int) -> str:
    """Return the start time of a process in the system's own format, or an empty string if it does not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
    process = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return process.stdout.strip()


def is_running(pid: int, started_at: str) -> bool:
    return bool(started_at) and start_time(pid) == started_at


def soft_off(pid: int, started_at: str, number: signal.Signals) -> None:
    """Send an ACPI soft off to a VM that any process booted. supervisor.SOFT_OFF has the time limits."""
    if is_running(pid, started_at):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def stop(pid: int, started_at: str) -> None:
    """Switch off a VM that any process booted, and return when it is off."""
    deadline = time.monotonic() + STOP_SEC
    signal_number = signal.SIGTERM
    while is_running(pid, started_at):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
        time.sleep(0.05)
        if time.monotonic() > deadline:
            signal_number = signal.SIGKILL
