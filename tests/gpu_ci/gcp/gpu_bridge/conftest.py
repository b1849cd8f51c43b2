"""Fixtures of the bridge's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.providers.gcp.compute import instances_api, vm_store
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET, Bridge, serving
from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import FaultyServer


@pytest.fixture
def storage() -> Iterator[FaultyServer]:
    """Serve an empty bucket."""
    server = FaultyServer(BUCKET)
    yield server
    server.close()


@pytest.fixture
def clients(storage: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Google's clients use the bucket of the test."""
    for name in ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", TOKEN)
    monkeypatch.setenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", f"{storage.address}/storage/v1/")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def bridge(storage: FaultyServer, clients: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridge]:
    """Return a bridge in an emulated Google Cloud."""
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 0.05)
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 0.0)
    with serving(storage, monkeypatch.setenv) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a workspace with one file."""
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "test.py").write_text("print('from the workspace')\n")
    return made
