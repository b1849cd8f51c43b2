"""Switch a VM off at each of the first lines that the supervisor's main thread runs once it waits for that.

Arguments: the number of lines, and the maximum seconds of a supervisor. Prints the first line at which it did not end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from pulumi_sandbox.providers.machines import supervisor

VM = {"script": "exec sleep 300", "environment": {}, "path": [os.environ["PATH"]], "journal": False}
# A main thread that waits runs no lines, so the VM is switched off after this time in any case.
WAITING_SEC = 0.1


def switch_off() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def trace_from(frame: FrameType, number: int) -> None:
    """Switch the VM off before the line with this number, counted from here."""
    lines = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        if event == "line":
            if lines == number:
                switch_off()
            lines += 1
        return trace

    frame.f_trace = trace
    sys.settrace(trace)


def supervise(number: int) -> None:
    """Run the supervisor, and trace its main thread after the start of its last thread."""
    start = threading.Thread.start

    def start_and_trace(thread: threading.Thread) -> None:
        start(thread)
        if getattr(thread, "_target", None) is supervisor.wait_for_parent:
            threading.Thread.start = start  # type: ignore[method-assign]
            timer = threading.Timer(WAITING_SEC, switch_off)
            timer.daemon = True
            timer.start()
            trace_from(sys._getframe(1), number)

    threading.Thread.start = start_and_trace  # type: ignore[method-assign]
    supervisor.main()


def ends(number: int, seconds: float) -> bool:
    """Return True if the supervisor ends in time after it was switched off at this line."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(read, 0)
        os.close(write)
        supervise(number)
        os._exit(0)
    os.close(read)
    os.write(write, json.dumps(VM).encode() + b"\n")
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG)[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(write)
    return bool(ended)


if __name__ == "__main__":
    print(next((number for number in range(int(sys.argv[1])) if not ends(number, float(sys.argv[2]))), "none"))
