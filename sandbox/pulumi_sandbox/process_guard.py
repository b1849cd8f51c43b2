"""Runs one command that ends when its caller ends, even if the caller is killed.

    python -I -S guard.py FD GRACE COMMAND [ARGUMENT...]

FD is the reading end of a pipe. Only the caller holds the writing end. GRACE is the number of seconds that the command
has to end after SIGTERM. The command replaces this process, so its process id, exit code and output are its own.
A watcher process stays. If the pipe closes without a byte, the caller is gone, and the watcher ends the command's
process group. A byte means that the command ended normally.
This file uses the standard library only and runs by its path: the command's interpreter may lack this package.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def signal_group(group: int, number: int) -> bool:
    """Return True if the process group still exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only zombies are left.
        return False
    return True


def watch(pipe: int, group: int, grace: float) -> None:
    """Wait for the end of the pipe. If no byte came, end the process group."""
    os.setsid()  # Leave the group, which this process may have to end.
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)  # Close the outputs, so that no reader waits for their end.
    if os.read(pipe, 1):
        return
    signal_group(group, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while signal_group(group, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    signal_group(group, signal.SIGKILL)


def main() -> None:
    pipe, grace, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    group = os.getpid()
    if os.fork() == 0:
        try:
            watch(pipe, group, grace)
        finally:
            os._exit(0)
    os.close(pipe)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command comes as a list, no shell is wanted
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
