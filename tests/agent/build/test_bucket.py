"""The agent's client of Cloud Storage, against the sandbox's emulation, with faults at each request."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_agent.google import storage as module
from gpu_agent.google.storage import GoogleBucket
from pulumi_sandbox.providers.gcp.object_storage import Fault, ObjectStorage, StorageServer
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.agent.fakes.clock import FakeClock

FAULTS = {
    "503": Fault(status=503),
    "429": Fault(status=429),
    "cut": Fault(is_cut=True),
    "lost": Fault(is_lost=True),
}


@pytest.fixture
def server() -> Iterator[StorageServer]:
    made = StorageServer(ObjectStorage("b"))
    yield made
    made.close()


@pytest.fixture
def bucket(server: StorageServer) -> GoogleBucket:
    return GoogleBucket(server.address, "b", lambda _: TOKEN, FakeClock())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def within(bucket: GoogleBucket, seconds: float = 20) -> float:
    return bucket._clock.now() + seconds


CONTENTS = [b"", b"line\n", b"\r\n--gpu-ci-object\r\nno end\n\r\n", bytes(range(256)) * 100, b"ends with newline\r\n"]


@pytest.mark.parametrize("content", CONTENTS)
def test_an_object_has_the_bytes_and_the_digest_that_were_written(
    server: StorageServer, bucket: GoogleBucket, content: bytes
) -> None:
    bucket.write("a/b c", content, digest(content), within(bucket))
    stored = server.storage.buckets["b"]["a/b c"]
    assert (stored.content, stored.metadata) == (content, {"sha256": digest(content)})
    sink = io.BytesIO()
    bucket.read("a/b c", sink, within(bucket), 2**20)
    assert sink.getvalue() == content


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_write_survives_faults(server: StorageServer, bucket: GoogleBucket, fault: str, times: int) -> None:
    server.storage.faults = [Fault(**{**vars(FAULTS[fault]), "times": times})]
    bucket.write("o", b"content", digest(b"content"), within(bucket))
    assert server.storage.buckets["b"]["o"].content == b"content"
    assert len(server.storage.requests) == times + 1


@pytest.mark.parametrize("fault", ["503", "cut", "lost"])
def test_a_read_survives_faults_and_keeps_no_part_of_an_attempt(
    server: StorageServer, bucket: GoogleBucket, fault: str
) -> None:
    bucket.write("o", b"content", digest(b"content"), within(bucket))
    server.storage.faults = [Fault(**{**vars(FAULTS[fault]), "times": 2})]
    sink = io.BytesIO(b"an earlier attempt")
    bucket.read("o", sink, within(bucket), 100)
    assert sink.getvalue() == b"content"


@pytest.mark.parametrize("chunk", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_is_sent_in_chunks_and_continues_after_a_fault(
    server: StorageServer,
    bucket: GoogleBucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    chunk: int,
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 2**18)
    content = os.urandom(3 * 2**18 + 5)
    (tmp_path / "file").write_bytes(content)
    # The first request starts the upload.
    count, planted = 0, server.storage.take_fault

    def take(method: str, target: str) -> Fault | None:
        nonlocal count
        count += 1
        return FAULTS[fault] if count == chunk + 1 else planted(method, target)

    monkeypatch.setattr(server.storage, "take_fault", take)
    bucket.write_file("o", tmp_path / "file", digest(content), within(bucket))
    stored = server.storage.buckets["b"]["o"]
    assert (stored.content == content, stored.metadata) == (True, {"sha256": digest(content)})
