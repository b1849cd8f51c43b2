"""Processes that end with the process that started them: child processes, and plugins of the engine."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import IO

from gpu_common import linux

CHECK_SECONDS = 1.0


class Guarded:
    """A command in its own process group.

    `cancel` ends the whole group. If this process is killed, the command gets SIGTERM.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        piped: bool = False,
        grace_sec: float = 3.0,
    ) -> None:
        self.cancelled = False
        self.ended = threading.Event()
        self._grace_sec = grace_sec
        stream = subprocess.PIPE if piped else None
        # -I -S start our interpreter without imports. The command then replaces it.
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-I", "-S", linux.__file__, str(int(signal.SIGTERM)), *command],
            cwd=cwd or None, env=dict(environment), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            start_new_session=True,
        )  # fmt: skip

    def output(self) -> Iterator[tuple[str, bytes]]:
        """Yield the command's output as it arrives: ("stdout" or "stderr", some bytes)."""
        assert self.process.stdout is not None  # noqa: S101 - only called where `piped` is set
        assert self.process.stderr is not None  # noqa: S101
        return chunks({"stdout": self.process.stdout, "stderr": self.process.stderr})

    def wait(self) -> int:
        """Return the exit code; it is negative if a signal ended the command."""
        code = self.process.wait()
        self.ended.set()
        return code

    def cancel(self) -> None:
        """End the whole process group, with SIGTERM first and SIGKILL after the grace time."""
        if not self.cancelled and not self.ended.is_set():
            self.cancelled = True
            # No other code may wait for the process: gRPC drops a cancelled call in the middle.
            threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self._signal_group(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_sec
        while self._signal_group(0) and time.monotonic() < deadline:
            self.process.poll()  # without this, the ended command itself would remain in the group
            time.sleep(0.05)
        self._signal_group(signal.SIGKILL)
        self.wait()

    def _signal_group(self, number: int) -> bool:
        """Return True if the process group still exists."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):  # PermissionError: on macOS, only zombies are left.
            return False
        return True


def chunks(streams: Mapping[str, IO[bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yield the data of several streams as it arrives, until all of them end."""
    arrived: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def pump(name: str, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 65536):
                arrived.put((name, data))
        arrived.put((name, b""))

    for name, stream in streams.items():
        threading.Thread(target=pump, args=(name, stream), daemon=True).start()
    open_streams = len(streams)
    while open_streams:
        name, data = arrived.get()
        if data:
            yield name, data
        else:
            open_streams -= 1


class EngineWatch:
    """Waits for a signal or for the end of the engine, which started this process."""

    def __init__(self, engine: str = "") -> None:
        self.stop_requested = False
        self.parent = os.getppid()
        self.engine = engine

    def watch(self) -> None:
        wake_read_end, wake_write_end = os.pipe()
        os.set_blocking(wake_write_end, False)
        signal.set_wakeup_fd(wake_write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._request_stop)
        # The kernel sends this signal when the *thread* that started us ends; the engine may still be running then.
        # The signal therefore only triggers a check. Without it, as on other systems, we check every second.
        signal.signal(signal.SIGUSR2, self._wake)
        linux.signal_when_parent_ends(signal.SIGUSR2)
        while not self.stop_requested and not self.orphaned():
            if select.select([wake_read_end], [], [], CHECK_SECONDS)[0]:
                os.read(wake_read_end, 512)

    def orphaned(self) -> bool:
        if os.getppid() != self.parent:
            return True
        # The parent is process 1: the engine itself in a container, or init if the engine exited before the start.
        return self.parent == 1 and bool(self.engine) and not accepts_connections(self.engine)

    def _request_stop(self, _: int, __: FrameType | None) -> None:
        self.stop_requested = True

    def _wake(self, _: int, __: FrameType | None) -> None:
        """Do nothing. The signal has ended the wait, and the loop checks again."""


def accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CHECK_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True
