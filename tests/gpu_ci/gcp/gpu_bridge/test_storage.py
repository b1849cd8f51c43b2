"""The step's client of Cloud Storage, through Google's client, against the sandbox's emulation."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.gcp.gate.google_service import ApiError
from gpu_ci.gcp.gpu_bridge import storage as module
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage
from pulumi_sandbox.providers.gcp.object_storage import Fault, StorageServer, StoredObject

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET


@pytest.fixture
def client(clients: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleStorage]:
    # The module time is shared with Google's client, which sleeps between its retries.
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    made = GoogleStorage(BUCKET)
    yield made
    made.close()


def read(client: GoogleStorage, name: str) -> bytes:
    entry = client.find(name)
    assert entry is not None
    sink = io.BytesIO()
    client.read(name, entry.generation, sink)
    return sink.getvalue()


@pytest.mark.parametrize("size", [1, 2**18, 3 * 2**18 + 7])
def test_an_upload_has_the_content_and_the_digest(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 2**18)
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    client.upload("sources/x y", tmp_path / "file", digest, lambda: False)
    entry = client.find("sources/x y")
    assert entry is not None
    assert (entry.size, entry.sha256, read(client, "sources/x y") == content) == (size, digest, True)


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(status=429), Fault(is_cut=True), Fault(is_lost=True)])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_upload_survives_faults(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path, fault: Fault, method: str
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    storage.storage.faults = [Fault(**{**vars(fault), "method": method})]
    client.upload("o", tmp_path / "file", "d", lambda: False)
    assert read(client, "o") == b"content"
    assert storage.storage.faults[0].times == 0


def test_an_upload_survives_more_faults_than_one_request_may_have(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 2**18)
    (tmp_path / "file").write_bytes(b"x" * 3 * 2**18)
    requests = itertools.count(1)

    def three_of_five(method: str, target: str) -> Fault | None:
        """Refuse a chunk, and two of the questions how much has arrived."""
        return Fault(status=503) if method == "PUT" and next(requests) % 5 in (1, 2, 3) else None

    monkeypatch.setattr(storage.storage, "take_fault", three_of_five)
    client.upload("o", tmp_path / "file", "d", lambda: False)
    assert next(requests) > 12
    assert read(client, "o") == b"x" * 3 * 2**18


def test_an_upload_ends_after_six_requests_without_an_answer(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    storage.storage.faults = [Fault(status=503, method="PUT", times=99)]
    with pytest.raises(ApiError) as caught:
        client.upload("o", tmp_path / "file", "d", lambda: False)
    assert (caught.value.status, storage.storage.faults[0].times) == (503, 99 - 6)


def test_a_stopped_upload_creates_no_object(client: GoogleStorage, storage: StorageServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    client.upload("o", tmp_path / "file", "d", lambda: True)
    assert client.find("o") is None


def test_an_upload_of_an_existing_object_changes_nothing(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    for _ in range(2):
        client.upload("o", tmp_path / "file", "d", lambda: False)
    assert len({entry.generation for entry in storage.storage.buckets[BUCKET].values()}) == 1


def test_an_upload_replaces_only_the_generation_that_it_names(
    client: GoogleStorage, storage: StorageServer, tmp_path: Path
) -> None:
    for number, content in enumerate((b"first", b"second", b"late")):
        (tmp_path / "file").write_bytes(content)
        if number == 0:
            generation = client.create("o", b"old")
        client.upload("o", tmp_path / "file", "d", lambda: False, generation)
    assert read(client, "o") == b"first"


def test_an_object_has_the_time_of_its_creation(client: GoogleStorage, storage: StorageServer) -> None:
    storage.storage.buckets[BUCKET]["o"] = StoredObject(b"", 1, created="2026-11-26T12:00:00.250Z")
    entry = client.find("o")
    assert entry is not None
    assert entry.created == 1_795_694_400.25


def test_an_object_is_created_once_and_replaced_by_the_holder_of_its_generation(
    client: GoogleStorage, storage: StorageServer
) -> None:
    first = client.create("slots/0", b"a")
    assert (first > 0, client.create("slots/0", b"b")) == (True, 0)
    second = client.replace("slots/0", b"c", first)
    assert (second > first, client.replace("slots/0", b"d", first)) == (True, 0)
    client.delete("slots/0", first)
    assert read(client, "slots/0") == b"c"
    client.delete("slots/0", second)
    client.delete("slots/0", second)
    assert client.find("slots/0") is None


def test_an_empty_object_is_read(client: GoogleStorage, storage: StorageServer) -> None:
    client.create("o", b"")
    assert read(client, "o") == b""


def test_a_refusal_is_an_api_error(client: GoogleStorage, storage: StorageServer) -> None:
    storage.storage.faults = [Fault(status=403, times=9)]
    with pytest.raises(ApiError) as caught:
        client.find("o")
    assert (caught.value.status, caught.value.missing) == (403, False)


def test_a_cut_network_is_a_temporary_error(client: GoogleStorage, storage: StorageServer) -> None:
    storage.storage.faults = [Fault(is_cut=True, times=99)]
    with pytest.raises(ApiError) as caught:
        client.find("o")
    assert caught.value.not_yet


def test_a_poll_is_not_repeated(client: GoogleStorage, storage: StorageServer) -> None:
    storage.storage.faults = [Fault(status=503, times=99)]
    with pytest.raises(ApiError):
        client.find("o", once=True)
    assert len(storage.storage.requests) == 1
