"""A boot from a host image, as the pipeline for host images provisions it: it downloads and installs nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.check import _INSTALLED
from gpu_agent.runner.archive import MARKER

from tests.agent.fakes import machine, runner
from tests.agent.fakes.jobs import job
from tests.agent.fakes.manager import Answer
from tests.agent.fakes.whole_machine import Plan, RunningMachine

RunMachine = Callable[..., dict[str, Any]]
TORCH = "2.13.0"


def host_image(running: RunningMachine, *, installs: bool, has_runner: bool = True, has_torch: bool = True) -> None:
    """Put the runner and torch where provision.sh puts them. The configuration is that of a pool or a check machine."""
    config = json.loads(running.google.attributes["gpu-agent-config"])
    config |= {"installs": installs, "torch": TORCH}
    config["runner"]["installs"] = installs
    running.google.attributes["gpu-agent-config"] = json.dumps(config)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", "/opt"], check=True)
    if has_runner:
        home = Path("/opt/actions-runner", runner.VERSION)
        (home / "bin").mkdir(parents=True)
        (home / "externals").mkdir()
        listener = home / "bin" / "Runner.Listener"
        listener.write_text(runner.listener(machine.open_python(), running.plan.does).content)
        listener.chmod(0o755)
        (home / MARKER).write_text(config["runner"]["sha256"]["x64"] + "\n")
    # The python3 of the image has no torch, and pip would write a line.
    torch = running.folder / "torch"
    torch.rename(running.folder / "installed")
    if has_torch:
        folder = running.folder / "state" / "torch"
        (folder / "bin").mkdir(parents=True)
        python = folder / "bin" / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{running.folder}/installed" exec "{machine.open_python()}" "$@"\n')
        python.chmod(0o755)
        (folder / _INSTALLED).write_text(TORCH)


@pytest.mark.parametrize("role", ["", "check"])
def test_a_boot_from_a_host_image_asks_for_no_download(run_machine: RunMachine, role: str) -> None:
    asked: list[int] = []

    def release(number: int, archive: bytes) -> tuple[int, bytes, int]:
        asked.append(number)
        return 200, archive, len(archive)

    found = run_machine(
        Plan(
            role=role,
            does=job(),
            answer=Answer(),
            release=release,
            prepare=lambda running: host_image(running, installs=False),
        )
    )
    assert found["reason"] == ("rehearsed" if role else "job-done"), found["serial"]
    assert asked == []
    lines = found["serial"].splitlines()
    assert [line for line in lines if "torch" in line] == [
        f"gpu-ci: the image has no torch; torch {TORCH} was installed by an earlier boot"
    ]
    assert not [line for line in lines if "pip" in line or "apt" in line]
