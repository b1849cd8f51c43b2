"""Child processes that end when this process ends or cancels them, also if this process is killed."""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

GUARD = Path(__file__).with_name("process_guard.py")


class Guarded:
    """A command in its own process group that ends with this process (process_guard.py)."""

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
        self._lock = threading.Lock()
        self._pipe_closed = False
        stream = subprocess.PIPE if piped else None
        reading, self._writing = os.pipe()
        try:
            # -I -S start our interpreter without imports. The command starts as it would without a guard.
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), str(reading), str(grace_sec), *command],
                cwd=cwd or None, env=dict(environment), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                pass_fds=[reading], start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def output(self) -> Iterator[tuple[str, bytes]]:
        """Yield the command's output as it arrives: ("stdout" or "stderr", some bytes)."""
        assert self.process.stdout is not None  # noqa: S101 - only called where `piped` is set
        assert self.process.stderr is not None  # noqa: S101
        return chunks({"stdout": self.process.stdout, "stderr": self.process.stderr})

    def wait(self) -> int:
        """Return the exit code; it is negative if a signal ended the command."""
        code = self.process.wait()
        self.ended.set()
        with self._lock:
            if not self._pipe_closed:
                self._pipe_closed = True
                with contextlib.suppress(OSError):
                    os.write(self._writing, b"x")  # This byte tells the watcher that the command ended normally.
                os.close(self._writing)
        return code

    def cancel(self) -> None:
        """End the whole process group, with SIGTERM first and SIGKILL after the grace time."""
        with self._lock:
            if self._pipe_closed or self.cancelled:
                return
            self.cancelled = True
            # The watcher acts on a pipe that closes without a byte, even if this process is killed now.
            self._pipe_closed = True
            os.close(self._writing)
        # No other code may wait for the process: gRPC drops a cancelled call in the middle.
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        self.process.wait()
        self.ended.set()


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


def when_orphaned(act: Callable[[], None], every: float = 0.5) -> None:
    """Call `act` once the process that started this one is gone.

    The engine holds the other end of a plugin's standard input, which closes when the engine ends. If standard input is
    something else, a changed parent process id shows the same.
    """
    parent = os.getppid()

    def listen() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        act()

    def poll() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        act()

    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            threading.Thread(target=listen, daemon=True).start()
    threading.Thread(target=poll, daemon=True).start()
