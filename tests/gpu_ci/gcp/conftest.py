"""Fixtures of the gate's tests."""

from __future__ import annotations

import pytest

from tests.gpu_ci.gcp.gate.setting import Setting


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    return Setting(monkeypatch)
