"""The scanner finds a secret in every place where a machine could leave one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.fakes import machine, runner, whole_machine
from tests.agent.fakes.jobs import job
from tests.agent.fakes.remains import is_allowed
from tests.agent.fakes.scanner import Finding, Scanner
from tests.agent.fakes.whole_machine import AT_WORK, Plan, RunningMachine

PLANTED = {"key": ["another-form", "planted-secret"]}
SLEEPS = "import sys; sys.stdin.read()"


def test_the_scanner_finds_secrets_in_files_arguments_environments_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("before planted-secret after")
    scanner = Scanner([tmp_path])
    processes = [
        subprocess.Popen([sys.executable, "-c", SLEEPS, "planted-secret"], stdin=subprocess.PIPE),
        subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=subprocess.PIPE, env={"KEY": "another-form"}),
    ]
    with scanner.looking():
        pass
    for process in processes:
        process.communicate()
    command = f"{sys.executable} -c {SLEEPS}"
    assert scanner.findings(PLANTED, {"serial": "a line\nplanted-secret", "log": "fine"}) == [
        Finding("key", "argv", f"{command} planted-secret"),
        Finding("key", "environ", command),
        Finding("key", "file", str(tmp_path / "folder" / "file")),
        Finding("key", "serial", ""),
    ]


def test_the_scanner_finds_secrets_that_were_overwritten_or_deleted_later(tmp_path: Path) -> None:
    scanner, file = Scanner([tmp_path]), tmp_path / "file"
    file.write_text("planted-secret")
    scanner.look_at_files()
    file.write_text("nothing any more")
    scanner.look_at_files()
    file.unlink()
    assert scanner.findings(PLANTED, {}) == [Finding("key", "file", str(file))]


def test_the_scanner_finds_nothing_on_a_machine_without_secrets(tmp_path: Path) -> None:
    scanner = Scanner([tmp_path])
    with scanner.looking():
        (tmp_path / "file").write_text("planted-secre")
    assert scanner.findings(PLANTED, {"serial": "planted"}) == []


@pytest.mark.parametrize(
    ("secret", "kind", "where"),
    [
        ("blob", "environ", "/usr/bin/python3 gpu_agent.pyz run"),
        ("blob", "argv", "/run/gpu-agent/runner/bin/Runner.Listener run"),
        ("blob", "file", "/run/gpu-agent/runner/.credentials"),
        ("credential", "file", "/home/gpu-runner/work/.credentials"),
        ("credential", "environ", "/run/gpu-agent/runner/bin/Runner.Listener run"),
        ("key", "environ", "/run/gpu-agent/runner/bin/Runner.Listener run"),
    ],
)
def test_secrets_are_allowed_only_in_the_two_places_of_githubs_runner(secret: str, kind: str, where: str) -> None:
    assert is_allowed("blob", "environ", "/usr/bin/python3 /run/gpu-agent/runner/bin/Runner.Listener run")
    assert is_allowed("credential", "file", "/run/gpu-agent/runner/.credentials")
    assert not is_allowed(secret, kind, where)


def leave_secrets(machines: RunningMachine) -> None:
    """Leave secrets on the machine in places where none may be."""
    token, blob = next(iter(machines.github.tokens)), machines.github.blobs[0]
    Path("/home/left").write_text(f"token {token}")
    Path("/var/lib/left").write_text(blob)
    machines.google.published.append(("left/here", machines.github.bearers[0]))
    command = [machine.open_python(), "-c", "import time; time.sleep(60)", runner.SECRET]
    environ = {"KEY": machines.google.secrets[whole_machine.SECRET].decode()}
    machine.STARTED.append(subprocess.Popen(command, env=environ, text=True))


def test_secrets_that_are_left_on_a_machine_are_found(
    tmp_path: Path, app_key: bytes, public_key: Any, run_machine: Callable[..., Any]
) -> None:
    found = whole_machine.run_machine(
        tmp_path, app_key, public_key, Plan(does=job("time.sleep(0.3)"), at=[(AT_WORK, leave_secrets)])
    )
    assert {(secret, kind) for secret, kind, _ in found["leaked"]} == {
        ("token", "file"),
        ("blob", "file"),
        ("JWT", "attributes"),
        ("credential", "argv"),
        ("key", "environ"),
        # The label of the key does not matter.
        ("private key", "environ"),
    }
