"""A child process as its parent sees it: two pipes that never block, a stage, and a way to end it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_CHUNK = 65_536
_TAIL = 4_096

# The child finds this package wherever it lies, in a zip too, and nothing in the working directory.
_START = """\
import sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path)]
from gpu_smoke import child
sys.exit(child.main(sys.argv[2:]))
"""


class Child:
    """One process for one device."""

    def __init__(self, device: str, index: int, known: str) -> None:
        """Start it; `known` is its compute capability where that was asked already."""
        self.index = index
        self.stage, self.text = "start", "starting Python"
        self.done = self.ended = False
        self._heard, self._said = b"", b""
        self.events, tell = os.pipe()
        self.output, out = os.pipe()
        root = Path(__file__).absolute().parent.parent
        words = [str(root), str(tell), device, str(index), known, str(os.getpid())]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=(tell,),
            start_new_session=True,  # a signal for the parent's group must not end a child before the verdict
            # 0 keeps NVIDIA's libraries from TF32 whatever the image says; with it float32 products would look wrong.
            env={**os.environ, "NVIDIA_TF32_OVERRIDE": "0", "PYTHONUNBUFFERED": "1"},
        )
        os.close(tell)
        os.close(out)
        os.set_blocking(self.events, False)
        os.set_blocking(self.output, False)

    def read(self, pipe: int) -> bytes | None:
        """What the pipe holds now: None is nothing yet, empty is its end."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return None
        if pipe == self.output:
            self._said = (self._said + data)[-_TAIL:]
        return data

    def heard(self, data: bytes) -> list[dict[str, Any]]:
        """The events that these bytes complete."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        events = []
        for line in lines:
            with contextlib.suppress(ValueError):  # whatever is missing in the end is noticed by checks.complete
                events.append(json.loads(line))
        return events

    def last_line(self) -> str:
        """The last thing that it, or a library in it, printed."""
        lines = self._said.decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """Kill it and what it started; returns at once, dead or not."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of its pipes, and of itself if it still runs."""
        if self.process.poll() is None:
            self.kill()
        os.close(self.events)
        os.close(self.output)
