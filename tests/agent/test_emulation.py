"""The emulation of a sandbox's machine refuses what a real machine refuses, and does not change the computer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.machine import gpu_health
from gpu_agent.machine.system import ENVIRONMENT
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner import archive, network_isolation
from gpu_agent_sandbox.system import _ARCHITECTURES, EmulatedSystem, Image

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


def test_a_pool_that_wants_docker_finds_none_on_the_emulated_image(system: EmulatedSystem) -> None:
    with pytest.raises(AgentExit, match="no-tool: docker: rootless needs packages that the image lacks"):
        network_isolation.isolate(BLOCKED, "rootless", system, Clock(), soon())


@pytest.mark.parametrize(
    "command", [["docker", "ps"], ["useradd", "x"], ["systemctl", "enable", "x"], ["sudo", "true"]]
)
def test_no_program_of_the_computer_runs_as_the_machines_root(system: EmulatedSystem, command: list[str]) -> None:
    assert system.run(command, timeout_sec=5) == (127, f"{command[0]}: No such file or directory")


def test_the_runner_baked_into_the_image_is_the_pinned_one_and_no_other(system: EmulatedSystem) -> None:
    [architecture] = [name for machine, name in _ARCHITECTURES.items() if machine == os.uname().machine]
    config = RunnerConfig("2.336.0", {architecture: PIN})
    assert archive.obtain(config, system, Clock(), soon()) == system.baked_folder / "2.336.0"
    assert archive._problem_of(system.baked_folder / "2.336.0", "c" * 64).endswith("is pinned")


def test_it_has_as_many_gpus_as_the_check_expects(system: EmulatedSystem) -> None:
    assert len(gpu_health.at_boot(system).memory_mib) == 2
    assert gpu_health.gpu_problem(system, gpu_health.at_boot(system)) == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
def test_the_end_of_the_runners_processes_includes_processes_of_other_sessions(
    system: EmulatedSystem,
) -> None:
    other = subprocess.Popen([str(shutil.which("sleep")), "60"])
    script = "setsid sh -c 'echo $$; exec env -u GPU_AGENT_SANDBOX_MACHINE sleep 60' & wait"
    user = system.runner_user()
    started = system.start(["sh", "-c", script], user, environment=ENVIRONMENT, folder=user.home)
    assert started.stdout
    escaped = int(started.stdout.readline())
    try:
        assert len(system.commands_of(user)) >= 2
        assert system.kill_all_of(user, Clock(), soon())
        assert started.wait(10) == -9
        assert system.commands_of(user) == []
        # A process that has ended has no command line, even before init has removed it.
        command = Path(f"/proc/{escaped}/cmdline")
        assert not command.exists() or command.read_bytes() == b""
        assert other.poll() is None
    finally:
        started.stdout.close()
        other.kill()
        other.wait()
