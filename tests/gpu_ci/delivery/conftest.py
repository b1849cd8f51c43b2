"""Credentials for Google's client, whose connection is a fake."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
