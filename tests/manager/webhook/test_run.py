"""`gpu-ci manager run --webhook`: a delivery begins the next pass."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_manager.model import RunKey
from gpu_manager.ports import GithubView

from tests.manager.test_commands import write_key
from tests.manager.test_config import CONFIG
from tests.manager.test_decide import NOW
from tests.manager.test_loop import Scripted
from tests.manager.webhook.test_hints import SECRET, headers, queued
from tests.manager.webhook.test_server import free_port

BODY = json.dumps(queued("gpu")).encode()


class Adapter(Scripted):
    """Both adapters. A delivery comes in the first pass, and a stop signal in the second."""

    url: ClassVar[str]
    passes: ClassVar[int] = 0

    def __init__(self, *_: Any, **options: Any) -> None:
        super().__init__(view=GithubView(NOW, (), ()))

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        type(self).passes += 1
        if self.passes == 1:
            httpx2.post(self.url, content=BODY, headers=headers(BODY))
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.view

    def interval_sec(self, active: bool) -> float:
        """Return more seconds than the test may take. After a hint the manager counts as active."""
        assert active
        return 3600

    def hinted_interval_sec(self) -> float:
        return 0.0

    def close(self) -> None:
        """Do nothing, because nothing is open."""


def test_a_delivery_begins_the_next_pass_and_a_signal_ends_the_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr("gpu_manager.github.adapter.GithubAdapter", Adapter)
    monkeypatch.setattr("gpu_manager.compute.adapter.ComputeAdapter", Adapter)
    monkeypatch.setattr(Adapter, "url", f"http://127.0.0.1:{port}/webhook", raising=False)
    monkeypatch.setattr(Adapter, "passes", 0)
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    (tmp_path / "secret").write_bytes(SECRET)
    write_key(tmp_path)
    files = {
        "--config": "manager.json", "--state": "state.sqlite", "--app-key": "key.pem", "--webhook-secret": "secret",
    }  # fmt: skip
    words = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    result = CliRunner().invoke(gpu_ci, ["manager", "run", "--webhook", f"127.0.0.1:{port}", *words])
    assert result.exit_code == 0, result.output
    assert Adapter.passes == 2
    with pytest.raises(httpx2.ConnectError):
        httpx2.post(Adapter.url, content=BODY)
