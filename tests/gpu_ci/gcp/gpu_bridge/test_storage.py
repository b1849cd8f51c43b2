"""The step's client of Cloud Storage, through Google's library, against the sandbox's emulation."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.gcp.gate.google_service import ApiError
from gpu_ci.gcp.gpu_bridge import storage as module
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET
from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import Fault, FaultyServer


@pytest.fixture
def client(clients: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleStorage]:
    monkeypatch.setattr("google.api_core.retry.retry_unary.time.sleep", lambda _: None)
    # Larger files are sent in chunks.
    monkeypatch.setattr("google.cloud.storage.blob._MAX_MULTIPART_SIZE", 2**18)
    made = GoogleStorage(BUCKET)
    yield made
    made.close()


def read(client: GoogleStorage, name: str) -> bytes:
    entry = client.find(name)
    assert entry is not None
    sink = io.BytesIO()
    client.read(entry, sink)
    return sink.getvalue()


@pytest.mark.parametrize("size", [0, 1, 3 * 2**18 + 7])
def test_an_upload_has_the_content_and_the_digest(
    client: GoogleStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 2**18)
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    client.upload("sources/x y", tmp_path / "file", digest)
    entry = client.find("sources/x y")
    assert entry is not None
    assert (entry.size, entry.sha256, read(client, "sources/x y") == content) == (size, digest, True)


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(status=429), Fault(is_cut=True), Fault(is_lost=True)])
@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE"])
def test_each_request_survives_a_fault(
    client: GoogleStorage, storage: FaultyServer, tmp_path: Path, fault: Fault, method: str
) -> None:
    content = os.urandom(2**18 + 1)
    (tmp_path / "file").write_bytes(content)
    storage.faults = [Fault(**{**vars(fault), "method": method})]
    client.upload("o", tmp_path / "file", "d")
    assert read(client, "o") == content
    client.write("o", b"small")
    assert read(client, "o") == b"small"
    client.delete("o")
    client.delete("o")
    assert client.find("o") is None
    assert storage.faults[0].times == 0


@pytest.mark.parametrize(
    ("fault", "status", "not_yet"),
    [(Fault(status=403), 403, False), (Fault(status=503), 503, True), (Fault(is_cut=True), 0, True)],
)
def test_an_error_is_an_api_error_and_a_poll_is_not_repeated(
    client: GoogleStorage, storage: FaultyServer, fault: Fault, status: int, not_yet: bool
) -> None:
    storage.faults = [Fault(**{**vars(fault), "times": 9})]
    with pytest.raises(ApiError) as caught:
        client.find("o", once=True)
    assert (caught.value.status, caught.value.not_yet, len(storage.requests)) == (status, not_yet, 1)


def test_a_missing_bucket_is_an_api_error(client: GoogleStorage, storage: FaultyServer) -> None:
    storage.storage.buckets.clear()
    with pytest.raises(ApiError) as caught:
        client.write("o", b"")
    assert (caught.value.missing, caught.value.reason) == (True, "notFound")
