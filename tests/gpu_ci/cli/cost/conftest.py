"""The day of the tests."""

from __future__ import annotations

import pytest
from gpu_ci.cli import clock

from tests.gpu_ci.cli.conftest import TODAY


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "today", lambda: TODAY)
