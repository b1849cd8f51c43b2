"""Run the command gpu-smoke in a fork of a process that has already imported it. This saves most of the time of a run.

The command and its workers are forks of that process. They are separate processes, which hang, die and are killed like
real ones. tests/engine and tests/smoke/test_archive.py start new processes instead.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["gpu_smoke.__main__", "gpu_smoke.workers.parent", "gpu_smoke.workers.roles", __name__])


def run(args: Sequence[str], environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of one run with this environment only."""
    process = _CONTEXT.Process(target=_main, args=(list(args), environment, str(folder)))
    process.start()
    process.join(120)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"gpu-smoke {' '.join(args)} did not end in 120 s")
    stdout, stderr = ((folder / name).read_bytes().decode() for name in ("stdout", "stderr"))
    return process.exitcode, stdout, stderr


def _main(args: list[str], environment: dict[str, str], folder: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # noqa: PTH118
        os.dup2(file, number)
        os.close(file)
    _reopen_streams()
    sys.argv = ["gpu-smoke", *args]
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)  # where the command looks for torch
    from gpu_smoke.__main__ import main
    from gpu_smoke.workers import process

    if "LD_LIBRARY_PATH" not in environment:  # the loader reads it only when a program starts
        process.subprocess = SimpleNamespace(Popen=_ForkedWorker, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    _exit_with(main)


class _ForkedWorker:
    """The part of subprocess.Popen that the package uses, for a worker that is a fork of the command's process."""

    def __init__(self, command: list[str], *, pass_fds: tuple[int], env: dict[str, str], **options: Any) -> None:
        assert command[1] == "-c", "a worker is started by a line of Python"
        assert (options.pop("stdin"), options.pop("start_new_session")) == (subprocess.PIPE, True)
        self.returncode: int | None = None
        stdin, write = os.pipe()
        ready, ready_write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.setsid()
            for number, stream in enumerate((stdin, options["stdout"], options["stderr"])):
                os.dup2(stream, number)
            for number in {int(file.name) for file in Path("/proc/self/fd").iterdir()} - {0, 1, 2, *pass_fds}:
                with contextlib.suppress(OSError):  # that of the listing itself
                    os.close(number)  # also ready_write, by which the parent learns that the session exists
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.environ.clear()
            os.environ.update(env)
            _reopen_streams()
            sys.argv = ["-c", *command[3:]]
            sys.modules.pop("sitecustomize", None)  # the fakes' own, which Python imports when it starts
            importlib.import_module("sitecustomize")
            _exit_with(lambda: exec(command[2], {"__name__": "__main__"}))  # noqa: S102 - what Python would run
        for number in (stdin, ready_write):
            os.close(number)
        os.read(ready, 1)
        os.close(ready)
        self.stdin = os.fdopen(write, "wb")

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _reopen_streams() -> None:
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def _exit_with(function: Callable[[], int | None]) -> NoReturn:
    """End this process as Python would with the value that is returned or raised, without cleaning up the forks."""
    code: int | None = 1
    try:
        code = function()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int | None) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(code or 0)
