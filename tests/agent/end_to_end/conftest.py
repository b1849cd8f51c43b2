"""Fixtures for tests of a whole machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.end_to_end.random_machines import broken
from tests.agent.fakes import machine, whole_machine
from tests.agent.fakes.whole_machine import Plan


@pytest.fixture
def run_machine(tmp_path: Path, app_key: bytes, public_key: RSAPublicKey) -> Callable[..., dict[str, Any]]:
    """Run one machine, and check the rules that hold for every end."""
    machine.needs("nft", "ip", "curl", "openssl")

    def run_machine(plan: Plan, registered: int = 1) -> dict[str, Any]:
        found = whole_machine.run_machine(tmp_path, app_key, public_key, plan)
        assert broken(found, registered) == [], found["serial"]
        return {**found, "reason": found["end"]["reason"], "detail": found["end"]["detail"]}

    return run_machine
