"""The supervisor of a VM of the sandbox."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from pathlib import Path

import pytest
from pulumi_sandbox.providers.machines.vm_processes import start_supervised


@pytest.mark.skipif(sys.platform != "linux", reason="sends a signal to one thread")
def test_a_signal_that_does_not_interrupt_the_wait_of_the_main_thread_switches_the_vm_off() -> None:
    """A signal just before the wait does not interrupt it either, and the script's first command may be `shutdown`."""
    process = start_supervised("exec sleep 300", {"HOME": "/"}, ())
    with process:
        tasks = Path(f"/proc/{process.pid}/task")
        while len(threads := sorted(int(each.name) for each in tasks.iterdir())) < 4:
            time.sleep(0.01)
        time.sleep(0.2)  # until the main thread waits
        ctypes.CDLL(None).tgkill(process.pid, threads[-1], signal.SIGTERM)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
