"""A real systemd as the first process of a machine, with which fakes/systemd.py is compared."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from tests.agent.fakes import machine, processes
from tests.agent.fakes.systemd import Systemd, Unit

PROGRAM, UNITS = Path("/lib/systemd/systemd"), Path("/lib/systemd/system")
# systemd(1), "Signals": this signal starts poweroff.target, as logind does for the power button of a VM.
_POWER_OFF = signal.SIGRTMIN + 4
_COPIED = (
    "basic.target", "sysinit.target", "shutdown.target", "poweroff.target", "final.target", "umount.target",
    "network.target", "network-online.target", "multi-user.target", "sockets.target", "timers.target", "paths.target",
    "slices.target", "local-fs.target", "systemd-poweroff.service", "systemd-journald.socket",
    "systemd-journald.service",
)  # fmt: skip
_OWN = {
    # The properties of Google's unit. fakes/systemd.py names the source.
    "google-startup-scripts.service": """[Unit]
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
KillMode=process
ExecStart={runner}
StandardOutput=journal+console
StandardError=journal+console
""",
    "network-of-the-test.service": """[Unit]
Wants=network.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=ip link set lo down
""",
    "apt-daily.timer": "[Timer]\nOnActiveSec=1h\n",
    "apt-daily.service": "[Service]\nType=oneshot\nExecStart=true\n",
}
_WANTED = (
    "google-startup-scripts.service",
    "network-of-the-test.service",
    "apt-daily.timer",
    "systemd-journald.service",
)
_NAME = re.compile(rb"^(\[ *[\d.]+\] )?[\w.-]+\[\d+\]: ")
_BOOT = """
mount --make-rprivate /
mount -t proc proc /proc
umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs own /run/systemd
mount -t tmpfs own /etc/systemd/system
mkdir -p /run/systemd/system /run/lock
mount --bind {console} /dev/console
exec env -i PATH="$PATH" container=test \
  SYSTEMD_UNIT_PATH={units}:/etc/systemd/system:/run/systemd/system:/run/systemd/transient \
  {program} --system --unit=multi-user.target --log-target=null --show-status=yes
"""


def needs() -> None:
    """Skip the test if no systemd can run here, and name what is missing."""
    machine.needs("unshare", "ip")
    if not PROGRAM.exists() or not shutil.which("systemd-run"):
        machine.left_out("needs systemd: apt-get install systemd")
    if _cgroups() is None:
        pytest.skip("needs cgroup2, mounted and writable: a container may have neither")


class RealSystemd(Systemd):
    """A systemd that boots with the script's unit, a network that goes down with its unit, and a timer of the image."""

    def start_script(self, command: Sequence[str]) -> None:
        """Boot it. The script is the last word of `command`."""
        units, wants = self.folder / "units", self.folder / "units" / "multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        for name in _COPIED:
            shutil.copy(UNITS / name, units)
        script = self.folder / "startup-script"
        shutil.copy(command[-1], script)
        runner = self.folder / "script-runner"
        # As in google_metadata_script_runner, the script's file is removed when the script has ended.
        runner.write_text(f"#!/bin/sh\n{command[0]} {script} | cat\nrm {script}\n")
        runner.chmod(0o755)
        for name, text in _OWN.items():
            (units / name).write_text(text.format(runner=runner))
        for name in _WANTED:
            (wants / name).symlink_to(units / name)
        quoted = " ".join(f'"{key}={value}"' for key, value in self._environ.items())
        Path("/etc/systemd").mkdir(exist_ok=True)
        Path("/etc/systemd/system.conf").write_text(f"[Manager]\nDefaultEnvironment={quoted}\n")
        master, slave = os.openpty()
        os.set_inheritable(slave, True)
        # The machine has its own cgroup, which its cgroup namespace shows as the root.
        self._cgroup = Path(tempfile.mkdtemp(prefix="gpu-ci-test-", dir=_cgroups()))
        boot = _BOOT.format(console=os.ttyname(slave), units=units, program=PROGRAM)
        self.runner = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--mount", "--cgroup", "--ipc", "--uts", "sh", "-e", "-c", boot],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: (self._cgroup / "cgroup.procs").write_text("0"),
        )
        self._streams = (master, slave)
        console = self.console.open("wb", buffering=0)
        threading.Thread(target=_copy, args=(master, console), daemon=True).start()

    @property
    def first(self) -> int:
        """Return the first process of systemd."""
        return processes.children()[self.runner.pid][0]

    def unit(self, name: str) -> Unit | None:
        """Return the unit of the agent, found by its command line."""
        for each in processes.numbers():
            if processes.command(each).endswith(b"gpu-agent-boot.sh\0in-unit\0"):
                return Unit(each, {})
        return None

    def look(self, apart: set[int]) -> None:
        """Check if the machine has been switched off."""
        self.off = self.runner.poll() is not None

    def stop(self, apart: set[int]) -> None:
        """Press the power button."""
        os.kill(self.first, _POWER_OFF)

    def close(self) -> None:
        """Remove its cgroups, after all its processes have ended."""
        self.runner.wait()
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            Path(folder).rmdir()


def _copy(terminal: int, console: IO[bytes]) -> None:
    """Copy each line without the program name that journald adds, as readers of a serial port expect."""
    with console, os.fdopen(terminal, "rb") as lines, contextlib.suppress(OSError):
        for line in lines:
            console.write(_NAME.sub(b"", line.replace(b"\r", b"")))


def _cgroups() -> Path | None:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(path, os.W_OK):
            return Path(path)
    return None
