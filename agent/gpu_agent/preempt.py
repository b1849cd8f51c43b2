#!/usr/bin/env python3
"""`gpu-ci-preempt -- COMMAND`: runs a command, and sends SIGTERM to its process group when the machine is preempted.

GitHub's runner signals only the first process of a step, which is usually a shell. This program is one file and uses
only the standard library, on Linux. The runner image has the file itself; on machines it is a command of the boot
agent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

USAGE = """usage: gpu-ci-preempt -- COMMAND [ARGUMENT...]

Runs COMMAND in a process group of its own. After a notice of preemption in $GPU_CI_NOTICE_FILE, SIGTERM or SIGINT, it
sends SIGTERM to the group once, and waits until the group has ended.

Exit code: that of COMMAND; 75 if COMMAND was interrupted; 126 or 127 if COMMAND cannot be started; 2 for wrong usage.
"""
INTERRUPTED = 75
"""The exit code after a notice: EX_TEMPFAIL of sysexits.h, a failure after which a retry may succeed."""
_STOPS = (signal.SIGTERM, signal.SIGINT)
# The interval at which the notice file is read.
_POLL_SEC = 0.2
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    if command[:1] == ["--"]:
        del command[0]
    if not command or command[0][:1] in ("", "-"):
        sys.stderr.write(USAGE)
        return 2
    file = os.environ.get("GPU_CI_NOTICE_FILE", "")
    if file:
        _arm(Path(f"{file}.armed"))
    # Processes of the group whose parent has ended become children of this one, so that it can wait for them.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The signals are blocked and received by `sigtimedwait`. The command gets the earlier mask and the usual actions.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOPS, signal.SIGCHLD))
    usual = (*_STOPS, signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores the last two.
    try:
        group = os.posix_spawnp(command[0], command, os.environ, setpgroup=0, setsigmask=mask, setsigdef=usual)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    return _wait(group, file)


def _wait(group: int, file: str) -> int:
    """Wait for the command, and after a notice for its whole process group. Return the exit code."""
    code: int | None = None
    is_interrupted = False
    while is_interrupted or code is None:
        try:
            pid, status = os.waitpid(-group, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == group:
            code = os.waitstatus_to_exitcode(status)
        if pid:
            continue
        received = signal.sigtimedwait((*_STOPS, signal.SIGCHLD), _POLL_SEC)
        number = received.si_signo if received else 0
        if number == signal.SIGCHLD:
            continue  # The command may have ended, so that a notice no longer matters.
        why = signal.Signals(number).name if number else _notice(file)
        if why and not is_interrupted:
            is_interrupted = True
            _say(f"{why}; sending SIGTERM to the command")
            os.killpg(group, signal.SIGTERM)
    if is_interrupted:
        return INTERRUPTED
    return 128 - code if code and code < 0 else code or 0


def _arm(path: Path) -> None:
    """Tell the machine that this job watches the notice file."""
    try:
        path.touch()
    except OSError as error:
        _say(f"{path}: {error.strerror}; the command may get no time to save after a notice")


def _notice(file: str) -> str:
    """Return the notice after which the command must end, or "". A notice whose `graceSec` is null lets it continue."""
    if not file:
        return ""
    try:
        notice = json.loads(Path(file).read_bytes())
    except OSError:
        return ""
    except (ValueError, RecursionError):
        notice = None
    if not isinstance(notice, dict):
        return f"{file} exists"
    return "" if notice.get("graceSec", 0) is None else str(notice.get("announcement", f"{file} exists"))


def _say(text: str) -> None:
    # Without a reader of stderr, the command must still get its signal. A closed stderr is None in Python.
    with contextlib.suppress(AttributeError, OSError):
        sys.stderr.write(f"gpu-ci-preempt: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
