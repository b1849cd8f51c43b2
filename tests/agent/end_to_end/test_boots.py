"""Boots twelve of the machines of `make test-boots`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.end_to_end.random_machines import random_machine
from tests.agent.fakes import machine, whole_machine


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, *range(3, 13)))])
def test_a_machine_that_meets_any_mixture_of_faults_ends_as_it_should(
    tmp_path: Path, app_key: bytes, public_key: RSAPublicKey, seed: int
) -> None:
    machine.needs("nft", "ip", "curl", "openssl")
    met = random_machine(seed)
    found = whole_machine.run_machine(tmp_path, app_key, public_key, met.plan)
    assert met.broken(found) == [], f"{met.faults}\n{found['serial']}"
