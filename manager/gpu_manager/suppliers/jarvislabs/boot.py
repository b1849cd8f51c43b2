"""The boot of a rented VM, which has no user data: its boot script is sent over SSH.

All VMs get one key of the manager, which a person adds to the account. A VM's host key is unknown before the first
connection. So who can answer for its address then gets the boot script, whose signed URL lets them publish a key and
get the registration of one runner, and with it one job. They get no credentials of the manager. Later connections of
this process refuse another host key.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...model import printable

KEY_FILE = "GPU_CI_JARVISLABS_SSH_KEY_FILE"
# The script is in a file, because its unit runs it again. Only root may read it, because it has a signed URL. A second
# start of the script finds the first one and does nothing (gpu_ci/mailbox/boot.sh).
REMOTE = "sudo -n sh -c " + shlex.quote(
    "umask 077; cat >/root/gpu-ci-boot.sh && systemd-run --quiet --collect /usr/bin/env bash /root/gpu-ci-boot.sh"
)
_OPTIONS = (
    "BatchMode=yes", "IdentitiesOnly=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
    "StrictHostKeyChecking=accept-new", "ForwardAgent=no", "ClearAllForwardings=yes", "LogLevel=ERROR",
)  # fmt: skip
_AGAIN_SEC, _KILL_SEC, GIVE_UP_SEC = 120.0, 60.0, 600.0
# The vendor's command: ssh -o StrictHostKeyChecking=no -p 2222 ubuntu@192.0.2.1
_TARGET = re.compile(r"(?:^|\s)([a-z_][a-z0-9_-]{0,31})@([A-Za-z0-9][A-Za-z0-9.:-]{0,252})(?:\s|$)")
_PORT = re.compile(r"\s-p\s*([1-9][0-9]{0,4})(?:\s|$)")


@dataclass
class _Boot:
    """The attempts for one VM. A script that was sent is sent again, because the VM may restart meanwhile."""

    since: float
    next_at: float
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    was_sent: bool = False
    problem: str = ""


class Boots:
    """Sends boot scripts, each by a process of `ssh` that later calls poll. No call waits for one."""

    def __init__(self, key_file: str = "", monotonic: Callable[[], float] = time.monotonic) -> None:
        """By default, an environment variable has the path of the private key."""
        self._key_file, self._monotonic = key_file or os.environ.get(KEY_FILE, ""), monotonic
        self._boots: dict[str, _Boot] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-ci-ssh-")

    def problem(self) -> str:
        """Return why no VM can be booted, or ""."""
        if not shutil.which("ssh"):
            return "the manager's computer has no ssh program"
        if not os.access(self._key_file, os.R_OK):
            return f"the SSH key cannot be read; set {KEY_FILE} to the path of its file"
        return ""

    def send(self, vm: str, ssh_command: str, script: str) -> str:
        """Send the script unless that has just been done. Return why it has failed for ten minutes, or "".

        Args:
            vm: A name of the VM in this boot. Another name may have another host key.
            ssh_command: The vendor's command, of which only user, host and port are used.
            script: The boot script.
        """
        now = self._monotonic()
        boot = self._boots.setdefault(vm, _Boot(now, now))
        self._poll(boot, now)
        if boot.process is None and now >= boot.next_at:
            try:
                boot.process, boot.begun = self._started(vm, ssh_command, script), now
            except (OSError, ValueError) as error:
                boot.problem = f"ssh could not be started: {error}"
        return boot.problem if not boot.was_sent and now - boot.since > GIVE_UP_SEC else ""

    def keep(self, vms: set[str]) -> None:
        """Forget all other VMs, and end their processes."""
        for vm in self._boots.keys() - vms:
            if process := self._boots.pop(vm).process:
                process.kill()
                process.communicate()

    def close(self) -> None:
        self.keep(set())
        self._folder.cleanup()

    def _started(self, vm: str, ssh_command: str, script: str) -> subprocess.Popen[bytes]:
        target, port = _TARGET.search(ssh_command), _PORT.search(ssh_command)
        if target is None:
            raise ValueError("the vendor's SSH command has no USER@HOST")
        options = (*_OPTIONS, f"HostKeyAlias={vm}", f"UserKnownHostsFile={self._folder.name}/known_hosts")
        given = [part for each in options for part in ("-o", each)]
        place = ["-p", port[1] if port else "22", "-l", target[1], target[2]]
        command = ["ssh", "-F", "none", "-T", "-i", self._key_file, *given, *place, REMOTE]
        with tempfile.TemporaryFile(dir=self._folder.name) as stdin:
            stdin.write(script.encode())
            stdin.seek(0)
            return subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _poll(self, boot: _Boot, now: float) -> None:
        process, is_late = boot.process, now - boot.begun > _KILL_SEC
        if process is None or (process.poll() is None and not is_late):
            return
        process.kill()
        # ssh writes less than the 64 KiB of a pipe, so it has not waited for a reader.
        text = printable(process.communicate()[1].decode(errors="replace").strip())[-300:]
        boot.process = None
        if process.returncode == 0:
            boot.was_sent, boot.next_at = True, now + _AGAIN_SEC
        else:
            boot.problem = f"SSH ended with {process.returncode}: {text}"
