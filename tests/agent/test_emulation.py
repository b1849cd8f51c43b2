"""The emulation of a sandbox's machine refuses what a real machine refuses, and does not change the computer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner import network_isolation
from gpu_agent_sandbox.system import EmulatedSystem, Image

from tests.agent.fakes.google import FakeGoogle

PIN = "b" * 64
BLOCKED = GoogleHost.blocked


@pytest.fixture
def system(google: FakeGoogle) -> Iterator[EmulatedSystem]:
    host, _, port = google.address.partition(":")
    with tempfile.TemporaryDirectory(prefix="vm") as folder:
        yield EmulatedSystem(Path(folder) / "m", Image(2, "2.336.0", PIN), (host, int(port)))


def soon() -> float:
    return Clock().now() + 30


def test_the_runners_user_reaches_the_machines_identity_before_the_isolation(system: EmulatedSystem) -> None:
    user = system.runner_user()
    identity = {"identity": ("169.254.169.254", 80)}
    assert network_isolation._probe(system, user, identity) == {"identity": "open"}
    network_isolation.block_identity(BLOCKED, system)
    assert network_isolation._probe(system, user, identity) == {"identity": "ECONNREFUSED"}
    assert network_isolation._probe(system, None, identity) == {"identity": "open"}


def test_an_agent_without_the_isolation_starts_no_runner(
    system: EmulatedSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_isolation, "block_identity", lambda *_: None)
    with pytest.raises(AgentExit, match=r"can reach the machine's identity: 169\.254\.169\.254 \(open\)"):
        network_isolation.isolate(BLOCKED, "none", system, Clock(), soon())


@pytest.mark.parametrize(
    "command", [["docker", "ps"], ["useradd", "x"], ["systemctl", "enable", "x"], ["sudo", "true"]]
)
def test_no_program_of_the_computer_runs_as_the_machines_root(system: EmulatedSystem, command: list[str]) -> None:
    assert system.run(command, timeout_sec=5) == (127, f"{command[0]}: No such file or directory")
