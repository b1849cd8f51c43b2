"""The supervisor of a VM of the sandbox."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("off_at_each_line.py")


def off_at_each_line(lines: int, seconds: int) -> str:
    command = [sys.executable, str(PROGRAM), str(lines), str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_vm_that_is_switched_off_while_its_supervisor_begins_to_wait_is_off() -> None:
    """threading.Event.wait has its lock during lines 3 to 13, and a signal handler that sets the Event then blocks."""
    assert off_at_each_line(lines=20, seconds=60) == "none\n"
