"""Writes the output of the command as numbered objects, one a second while there is output."""

from __future__ import annotations

import hashlib
import os
import threading

from ..clock import Clock
from ..outcomes import AgentExit
from ..storage import GoogleBucket

OBJECT_BYTES = 2**20
"""The maximum size of one object."""
_EVERY_SEC = 1.0
# The command waits if it prints faster than Cloud Storage takes its output, so that the memory stays bounded.
_BUFFER_BYTES = 8 * OBJECT_BYTES
# A network that is cut for longer ends the build, because the GPU would run without a visible result.
_WRITE_WITHIN_SEC = 180.0
_READ_BYTES = 65_536


def name_of(prefix: str, number: int) -> str:
    """Return the name of a log object. The first number is 1."""
    return f"{prefix}log-{number:08d}"


class Output:
    """Copies a pipe to objects, in two threads: one reads the pipe, and one writes the objects."""

    def __init__(self, bucket: GoogleBucket, prefix: str, clock: Clock, every_sec: float = _EVERY_SEC) -> None:
        self._bucket, self._prefix, self._clock, self._every_sec = bucket, prefix, clock, every_sec
        self._changed = threading.Condition()
        self._buffer = bytearray()
        self._read_all = False
        self._deadline: float | None = None
        self._threads: list[threading.Thread] = []
        self.objects = 0
        """The number of objects that were written."""
        self.failure: AgentExit | None = None
        """Why an object could not be written. The output after it is dropped."""

    def start(self, pipe: int) -> None:
        """Begin to copy the pipe, whose other end belongs to the command."""
        self._threads = [
            threading.Thread(target=target, args=arguments, daemon=True)
            for target, arguments in ((self._read, (pipe,)), (self._write_objects, ()))
        ]
        for thread in self._threads:
            thread.start()

    def finish(self, read_sec: float, deadline: float) -> None:
        """Write the rest. `read_sec` is the time for the rest of the pipe, which a left process may keep open."""
        if not self._threads:
            return
        self._threads[0].join(read_sec)
        with self._changed:
            self._read_all, self._deadline = True, deadline
            self._changed.notify_all()
        self._threads[1].join(max(deadline - self._clock.now(), 0))
        if self._threads[1].is_alive() and self.failure is None:
            self.failure = AgentExit("storage-unreachable", "the end of the output could not be written in time")

    def _read(self, pipe: int) -> None:
        while True:
            try:
                piece = os.read(pipe, _READ_BYTES)
            except OSError:
                piece = b""
            with self._changed:
                while len(self._buffer) >= _BUFFER_BYTES and not self.failure and not self._read_all:
                    self._changed.wait()
                if not piece or self._read_all:
                    return
                if not self.failure:
                    self._buffer += piece
                self._changed.notify_all()

    def _write_objects(self) -> None:
        written_at = self._clock.now() - self._every_sec
        while True:
            with self._changed:
                while not self._buffer and not self._read_all:
                    self._changed.wait()
                wait_sec = written_at + self._every_sec - self._clock.now()
                if wait_sec > 0 and len(self._buffer) < OBJECT_BYTES and not self._read_all:
                    self._changed.wait(wait_sec)
                    continue
                piece = bytes(self._buffer[:OBJECT_BYTES])
                if not piece:
                    return
            written_at = self._clock.now()
            if not self._write(piece):
                return
            with self._changed:
                del self._buffer[: len(piece)]
                self._changed.notify_all()

    def _write(self, piece: bytes) -> bool:
        deadline = self._clock.now() + _WRITE_WITHIN_SEC
        if self._deadline is not None:
            deadline = min(deadline, self._deadline)
        try:
            self._bucket.write(
                name_of(self._prefix, self.objects + 1), piece, hashlib.sha256(piece).hexdigest(), deadline
            )
        except AgentExit as ended:
            failure = ended
        except Exception as error:
            failure = AgentExit("storage-unreachable", f"the output could not be written: {type(error).__name__}")
        else:
            self.objects += 1
            return True
        with self._changed:
            self.failure = failure
            self._buffer.clear()
            self._changed.notify_all()
        return False
