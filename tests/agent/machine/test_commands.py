"""Commands of the machine at their deadline."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import commands
from gpu_agent.machine.commands import TIMED_OUT, Done, Machine


@pytest.mark.parametrize("ignoring", ["child", "parent", "both"])
def test_a_command_at_its_deadline_ends_with_children_that_ignore_term(
    ignoring: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_GRACE_SEC", 1.0)
    ignore, number = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); ", f"63.{os.getpid()}"
    child = (ignore if ignoring in ("child", "both") else "") + f"import time; time.sleep({number})"
    parent = (ignore if ignoring in ("parent", "both") else "") + (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(60)"
    )
    machine = Machine(Clock(), lambda _: None, tmp_path, tmp_path)
    assert machine.run(sys.executable, "-c", parent, child, deadline=time.monotonic() + 2) == Done(TIMED_OUT, "")

    def running() -> list[bytes]:
        return [
            line for line in map(_command_line, Path("/proc").glob("[0-9]*")) if f"sleep({number})".encode() in line
        ]

    until = time.monotonic() + 10  # A killed process disappears a moment later.
    while running() and time.monotonic() < until:
        time.sleep(0.01)
    assert running() == []


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
