"""Fixtures that restore global state after tests of the manager."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Restore the signal handlers. `gpu-ci manager run` sets them for its process, which is that of the tests here."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
