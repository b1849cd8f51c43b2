"""The boot script over SSH: what runs here and on the VM, and what happens if it fails."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_manager.model import End
from gpu_manager.ports import InsertRefused
from gpu_manager.suppliers.jarvislabs.boot import GIVE_UP_SEC, REMOTE, Boots

from tests.manager.suppliers.contract import insert_of, machines, only, until
from tests.manager.suppliers.jarvislabs.conftest import Rented, Ssh

COMMAND = "ssh -o StrictHostKeyChecking=no -p 2222 ubuntu@192.0.2.1"
SCRIPT = "#!/usr/bin/env bash\nBOOT_URL='https://example.com/?X-Amz-Signature=secret'\n"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    return Ssh(tmp_path, monkeypatch)


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def boots(ssh: Ssh, clock: list[float]) -> Iterator[Boots]:
    made = Boots(str(ssh.key), lambda: clock[0])
    yield made
    made.close()


def ended(boots: Boots, vm: str = "vm-1") -> None:
    if process := boots._boots[vm].process:
        process.wait(10)


def test_the_script_comes_by_standard_input_and_no_secret_is_an_argument(
    boots: Boots, ssh: Ssh, clock: list[float]
) -> None:
    for _ in range(2):
        assert boots.send("vm-1", COMMAND, SCRIPT) == ""
    ended(boots)
    assert ssh.scripts() == {2222: SCRIPT}
    [argv] = ssh.argv
    assert "secret" not in argv
    assert argv.endswith(f"-p 2222 -l ubuntu 192.0.2.1 {REMOTE}")
    assert [each for each in ("BatchMode=yes", "HostKeyAlias=vm-1") if each not in argv] == []
    for now in (0.0, 119.0):
        clock[0] = now
        boots.send("vm-1", COMMAND, SCRIPT)
        assert boots._boots["vm-1"].process is None
    clock[0] = 121.0
    boots.send("vm-1", COMMAND, SCRIPT)
    ended(boots)
    assert len(ssh.argv) == 2


def test_the_real_ssh_accepts_the_options(boots: Boots, ssh: Ssh) -> None:
    boots.send("vm-1", COMMAND, SCRIPT)
    ended(boots)
    [argv] = ssh.argv
    (ssh.folder / "ssh").unlink()
    given = shlex.split(argv.removesuffix(REMOTE))
    done = subprocess.run(["ssh", "-G", *given], capture_output=True, text=True, check=True)
    read = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert {key: read[key] for key in ("user", "port", "batchmode", "stricthostkeychecking", "hostkeyalias")} == {
        "user": "ubuntu", "port": "2222", "batchmode": "yes", "stricthostkeychecking": "accept-new",
        "hostkeyalias": "vm-1",
    }  # fmt: skip
    assert (read["identityfile"], Path(read["userknownhostsfile"]).name) == (str(ssh.key), "known_hosts")


def test_on_the_vm_root_runs_the_script_from_a_file_that_only_root_may_read(tmp_path: Path) -> None:
    program = REMOTE.replace("/root/", f"{tmp_path}/")
    for name, text in (("sudo", 'shift; exec "$@"'), ("systemd-run", 'echo "$@"; shift 2; exec "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = 'echo "ran $0"; cat'
    done = subprocess.run(["sh", "-c", program], input=script, capture_output=True, text=True, env={"PATH": path})
    file = tmp_path / "gpu-ci-boot.sh"
    assert done.stdout.splitlines() == [f"--quiet --collect /usr/bin/env bash {file}", f"ran {file}"]
    assert (file.read_text(), file.stat().st_mode & 0o777) == (script, 0o600)


@pytest.mark.parametrize(
    "command", ["", "ssh", "ssh -p 22", "ssh root@-oProxyCommand=reboot", "ssh 'a b'@host", "ssh root@$(reboot)"]
)
def test_a_command_without_a_host_runs_nothing(boots: Boots, ssh: Ssh, clock: list[float], command: str) -> None:
    boots.send("vm-1", command, SCRIPT)
    clock[0] = GIVE_UP_SEC + 1
    assert "no USER@HOST" in boots.send("vm-1", command, SCRIPT)
    assert ssh.argv == []


def test_a_failed_connection_is_tried_again_and_later_reported(boots: Boots, ssh: Ssh, clock: list[float]) -> None:
    ssh.says("echo 'Permission denied (publickey).' >&2; exit 255")
    for now in (0.0, 10.0, 20.0):
        clock[0] = now
        assert boots.send("vm-1", COMMAND, SCRIPT) == ""
        ended(boots)
    assert len(ssh.argv) == 3
    clock[0] = GIVE_UP_SEC + 1
    assert boots.send("vm-1", COMMAND, SCRIPT) == "SSH ended with 255: Permission denied (publickey)."


def test_a_hanging_connection_blocks_nothing_and_is_ended(boots: Boots, ssh: Ssh, clock: list[float]) -> None:
    ssh.says("exec sleep 60")
    began = time.monotonic()
    boots.send("vm-1", COMMAND, SCRIPT)
    boots.send("vm-2", COMMAND, SCRIPT)
    first, second = (boots._boots[vm].process for vm in ("vm-1", "vm-2"))
    clock[0] = 61.0
    boots.send("vm-1", COMMAND, SCRIPT)
    boots.keep({"vm-1"})
    assert (first and first.returncode, second and second.returncode) == (-9, -9)
    assert boots._boots["vm-1"].process is not first
    assert time.monotonic() - began < 30


def test_a_vm_that_no_script_reaches_ends_with_the_reason(account: Rented) -> None:
    now, own = [0.0], account.pool("waits")
    supplier = account.supplier()
    supplier._boots._monotonic = lambda: now[0]
    account.ssh.says("echo 'Permission denied (publickey).' >&2; exit 255")
    supplier.start(own, insert_of(own))
    until(lambda: machines(supplier, own)[0].status == "RUNNING" and account.ssh.argv, "a connection")
    now[0] = GIVE_UP_SEC + 1
    machine = until(lambda: next((each for each in machines(supplier, own) if each.off), None), "the end")
    assert machine.end == End("not-booted", "SSH ended with 255: Permission denied (publickey).")
    supplier.delete(machine)
    assert supplier.list([own]) == ()


@pytest.mark.parametrize("name", ["key", "end"])
def test_a_vm_that_has_written_is_not_connected(account: Rented, name: str) -> None:
    supplier, own = account.supplier(), account.pool("waits")
    started = supplier.start(own, insert_of(own))
    account.bucket.write(f"staging/mail/{started.id}/{name}", b"{}")
    until(lambda: only(supplier.list([own])).status != "PROVISIONING", "the VM")
    supplier.list([own])
    assert account.ssh.argv == []


@pytest.mark.parametrize("missing", ["ssh", "key"])
def test_without_ssh_no_vm_is_requested(account: Rented, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    supplier, own = account.supplier(), account.pool("waits")
    account.ssh.key.unlink() if missing == "key" else monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InsertRefused, match="no ssh program" if missing == "ssh" else "SSH key cannot be read"):
        supplier.start(replace(own, max=1), insert_of(own))
    assert account.fake.posts() == []
