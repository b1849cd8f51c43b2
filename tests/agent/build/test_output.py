"""The output of a build's command, copied from a pipe to numbered objects."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from gpu_agent import storage
from gpu_agent.build.output import Output, name_of
from gpu_agent.clock import Clock
from gpu_agent.outcomes import AgentExit
from gpu_agent.storage import GoogleBucket
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.agent.fakes.clock import FakeClock
from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import Fault, FaultyServer

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


FAULTS = {
    "503": Fault(status=503),
    "429": Fault(status=429),
    "cut": Fault(is_cut=True),
    "lost": Fault(is_lost=True),
}


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    made = FaultyServer("b")
    yield made
    made.close()


@pytest.fixture
def bucket(server: FaultyServer) -> GoogleBucket:
    return GoogleBucket(server.address, "b", lambda _: TOKEN, FakeClock())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def within(bucket: GoogleBucket, seconds: float = 20) -> float:
    return bucket._clock.now() + seconds


CONTENTS = [b"", b"line\n", b"\r\n--gpu-ci-object\r\nno end\n\r\n", bytes(range(256)) * 100, b"ends with newline\r\n"]


@pytest.mark.parametrize("content", CONTENTS)
def test_an_object_has_the_bytes_and_the_digest_that_were_written(
    server: FaultyServer, bucket: GoogleBucket, content: bytes
) -> None:
    bucket.write("a/b c", content, digest(content), within(bucket))
    stored = server.storage.buckets["b"]["a/b c"]
    assert (stored.content, stored.metadata) == (content, {"sha256": digest(content)})
    sink = io.BytesIO()
    bucket.read("a/b c", sink, within(bucket), 2**20)
    assert sink.getvalue() == content


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_write_survives_faults(server: FaultyServer, bucket: GoogleBucket, fault: str, times: int) -> None:
    server.faults = [Fault(**{**vars(FAULTS[fault]), "times": times})]
    bucket.write("o", b"content", digest(b"content"), within(bucket))
    assert server.storage.buckets["b"]["o"].content == b"content"
    assert len(server.requests) == times + 1


@pytest.mark.parametrize("fault", ["503", "cut", "lost"])
def test_a_read_survives_faults_and_keeps_no_part_of_an_attempt(
    server: FaultyServer, bucket: GoogleBucket, fault: str
) -> None:
    bucket.write("o", b"content", digest(b"content"), within(bucket))
    server.faults = [Fault(**{**vars(FAULTS[fault]), "times": 2})]
    sink = io.BytesIO(b"an earlier attempt")
    bucket.read("o", sink, within(bucket), 100)
    assert sink.getvalue() == b"content"


@pytest.mark.parametrize("chunk", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_is_sent_in_chunks_and_continues_after_a_fault(
    server: FaultyServer,
    bucket: GoogleBucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    chunk: int,
) -> None:
    monkeypatch.setattr(storage, "_CHUNK_BYTES", 2**18)
    content = os.urandom(3 * 2**18 + 5)
    (tmp_path / "file").write_bytes(content)
    # The first request starts the upload.
    count, planted = 0, server.take_fault

    def take(method: str, target: str) -> Fault | None:
        nonlocal count
        count += 1
        return FAULTS[fault] if count == chunk + 1 else planted(method, target)

    monkeypatch.setattr(server, "take_fault", take)
    bucket.write_file("o", tmp_path / "file", digest(content), within(bucket))
    stored = server.storage.buckets["b"]["o"]
    assert (stored.content == content, stored.metadata) == (True, {"sha256": digest(content)})
