"""The signals that end a program of Cloud Build."""

from __future__ import annotations

import subprocess
import sys

# Sends SIGTERM before each line that the main thread runs in Event.wait, each time in another process.
_AT_EACH_LINE = """
import os, signal, sys
from gpu_ci.gcp.gate.waiting import cancellation

def at(number):
    lines = 0
    def trace(frame, event, argument):
        nonlocal lines
        if event == "line" and frame.f_code.co_filename.endswith("threading.py"):
            if lines == number:
                os.kill(os.getpid(), signal.SIGTERM)
            lines += 1
        return trace
    signal.alarm(20)
    cancel = cancellation()
    sys.settrace(trace)
    cancel.wait(0.2)
    sys.settrace(None)
    if lines <= number:
        return os._exit(9)
    os._exit(0 if cancel.wait(10) else 1)

for number in range(100):
    child = os.fork()
    if not child:
        at(number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 9:
        break
    assert code == 0, f"line {number}: {code}"
print(number)
"""


def test_a_signal_at_any_line_of_a_wait_sets_the_event() -> None:
    """The main thread may hold the lock of the event at that time."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_EACH_LINE], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) >= 10
