"""The output of a build's command, copied from a pipe to numbered objects."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO

from gpu_agent.build.output import Output, name_of
from gpu_agent.clock import Clock
from gpu_agent.outcomes import AgentExit

MIB = 2**20


class Bucket:
    """A bucket in memory. `failure` is the error of each write, and `gate` holds writes back while it is clear."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def read(self, name: str, sink: BinaryIO, deadline: float, limit_bytes: int) -> None:
        raise AssertionError

    def write(self, name: str, content: bytes, sha256: str, deadline: float) -> None:
        self.gate.wait(10)
        if self.failure:
            raise self.failure
        assert sha256 == hashlib.sha256(content).hexdigest()
        assert name not in self.objects
        self.objects[name] = content

    def write_file(self, name: str, path: Path, sha256: str, deadline: float) -> None:
        raise AssertionError


def copied(bucket: Bucket, *pieces: bytes, every_sec: float = 0.01) -> Output:
    """Copy these pieces, and wait for the end."""
    reading, writing = os.pipe()
    output = Output(bucket, "builds/b/a-1/", Clock(), every_sec)
    output.start(reading)
    for piece in pieces:
        os.write(writing, piece)
    os.close(writing)
    output.finish(5, Clock().now() + 5)
    os.close(reading)
    return output


def test_objects_are_numbered_from_one_and_contain_the_whole_output() -> None:
    bucket = Bucket()
    output = copied(bucket, b"one\n", b"\xff\x00two", b"")
    assert b"".join(bucket.objects[name] for name in sorted(bucket.objects)) == b"one\n\xff\x00two"
    assert list(bucket.objects) == [name_of("builds/b/a-1/", number + 1) for number in range(output.objects)]
    assert name_of("p/", 12) == "p/log-00000012"


def test_a_command_waits_while_the_bucket_takes_no_output() -> None:
    bucket = Bucket()
    bucket.gate.clear()
    reading, writing = os.pipe()
    output = Output(bucket, "", Clock(), 0.01)
    output.start(reading)
    os.set_blocking(writing, False)
    written, until = 0, time.monotonic() + 10
    blocked = 0
    while blocked < 20 and time.monotonic() < until:
        try:
            written += os.write(writing, bytes(65_536))
            blocked = 0
        except BlockingIOError:
            blocked += 1
            time.sleep(0.01)
    assert 8 * MIB <= written < 10 * MIB
    bucket.gate.set()
    os.close(writing)
    output.finish(5, Clock().now() + 5)
    os.close(reading)
    assert sum(map(len, bucket.objects.values())) == written


def test_a_process_that_keeps_the_pipe_open_does_not_delay_the_end() -> None:
    bucket = Bucket()
    reading, writing = os.pipe()
    output = Output(bucket, "", Clock(), 0.01)
    output.start(reading)
    os.write(writing, b"last\n")
    began = time.monotonic()
    output.finish(0.2, Clock().now() + 5)
    assert time.monotonic() - began < 4
    assert b"".join(bucket.objects.values()) == b"last\n"
    os.close(writing)


def test_output_that_cannot_be_written_is_a_failure_and_does_not_block_the_command() -> None:
    bucket = Bucket()
    bucket.failure = AgentExit("storage-unreachable", "no answer")
    reading, writing = os.pipe()
    output = Output(bucket, "", Clock(), 0.01)
    output.start(reading)
    with open(writing, "wb") as file:  # noqa: PTH123 - the file is a pipe
        file.write(bytes(20 * MIB))
    output.finish(5, Clock().now() + 5)
    os.close(reading)
    assert output.failure is not None
    assert (output.failure.end.reason, output.objects) == ("storage-unreachable", 0)
