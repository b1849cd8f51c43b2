"""Runs one command so that it ends with the process that asked for it, even when that one is killed.

    python -I -S guard.py FD GRACE COMMAND [ARGUMENT...]

FD is the reading end of a pipe whose writing end only the asking process holds; GRACE is how many seconds the command
has to end in good order once it is told to. The command takes this process's place,
so its process id, exit code and output are its own. A watcher stays behind: when the pipe is closed without a word, the
asking process is gone, and the watcher ends the command's whole process group. A byte means that all went well.
Standard library only, and by its path: the command's interpreter need not have this package.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def signal_group(group: int, number: int) -> bool:
    """Whether there is such a group still."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # on macOS: only zombies are left
        return False
    return True


def watch(pipe: int, group: int, grace: float) -> None:
    os.setsid()  # out of the group it may have to end
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)  # nobody waits for the end of output that will never come
    if os.read(pipe, 1):
        return
    signal_group(group, signal.SIGTERM)
    ends = time.monotonic() + grace
    while signal_group(group, 0) and time.monotonic() < ends:
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
