"""One `run` step, started and cancelled as by GitHub's runner, and a program that saves its work on SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.agent.fakes import processes

SHELL = ("bash", "-e")
"""The command of a step without `shell` (docs.github.com: workflow syntax, jobs.<job_id>.steps[*].shell)."""
CANCEL = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5))
"""The signals to the first process of a step, each with the seconds until the next one. A kill of the tree follows
(actions/runner@258d6c8:src/Runner.Sdk/ProcessInvoker.cs).
"""
TRAINING = """
import pathlib, signal, sys, time
events = pathlib.Path(__file__).with_name("events")
def note(word):
    with events.open("a") as file:
        file.write(word + chr(10))
def save(number, _):
    note(signal.Signals(number).name)
    time.sleep(float(sys.argv[1]))
    note("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, lambda *_: note("SIGINT"))
events.with_name("ready").touch()
until = time.monotonic() + 60
while time.monotonic() < until:
    time.sleep(0.05)
"""
"""A program that saves its work for argv[1] seconds on SIGTERM. It writes its signals to the file `events`."""


class Step:
    """A running step. Its folder has TRAINING as train.py."""

    def __init__(self, folder: Path, script: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        (folder / "train.py").write_text(TRAINING)
        (folder / "step.sh").write_text(script)
        inherited = {name: value for name, value in os.environ.items() if name != "GPU_CI_NOTICE_FILE"}
        self._process = subprocess.Popen(
            [*SHELL, str(folder / "step.sh")], cwd=folder, env={**inherited, **environment}, stdin=subprocess.DEVNULL
        )
        self._tree: set[int] = set()
        self._began = time.monotonic()

    def cancel(self) -> None:
        """Cancel the step as the runner does, in a thread."""
        self._tree = set(self._descendants())
        threading.Thread(target=self._cancel, daemon=True).start()

    def wait(self) -> tuple[int, float]:
        """Return the exit code of the step, and the seconds since its start or since the last call of `cancel`."""
        code = self._process.wait(60)
        return code, time.monotonic() - self._began

    def events(self) -> list[str]:
        """Return the events of train.py."""
        file = self._folder / "events"
        return file.read_text().split() if file.exists() else []

    def kill_tree(self) -> None:
        """Kill the processes of the step."""
        for pid in {*self._tree, *self._descendants()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _cancel(self) -> None:
        self._began = time.monotonic()
        for number, seconds in CANCEL:
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return
        self.kill_tree()

    def _descendants(self) -> list[int]:
        children, found = processes.children(), [self._process.pid]
        for each in found:
            found += children.get(each, [])
        return found


def wait_for(path: Path) -> None:
    """Return when the file exists."""
    until = time.monotonic() + 120  # to import torch on a busy machine
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.01)
