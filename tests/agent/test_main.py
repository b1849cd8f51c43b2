"""The command line of the agent, its reasons for an end, and the emulation of a machine."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import gpu_agent
import pytest
from gpu_agent import __main__ as agent
from gpu_agent.__main__ import main
from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.outcomes import OUTCOMES, AgentExit
from gpu_agent.runner import network_isolation
from gpu_agent_sandbox.system import EmulatedSystem, Image

from tests.agent.fakes.google import FakeGoogle, Fault


@pytest.mark.parametrize("maker", [None, "KVM", "Standard PC (Q35 + ICH9, 2009)"])
def test_a_computer_outside_compute_engine_is_not_changed(
    maker: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GCE_METADATA_HOST", raising=False)
    monkeypatch.setattr(agent, "PRODUCT", tmp_path / "product_name")
    # If the program continued by mistake, it must not switch this computer off.
    monkeypatch.setattr(agent, "Supervisor", None)
    if maker:
        (tmp_path / "product_name").write_text(f"{maker}\n")
    assert main(["run"]) == 2
    assert capsys.readouterr().out == ("gpu_agent.pyz run: this is not a Compute Engine VM, so nothing is changed\n")


@pytest.fixture
def own_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return a user's computer, with a variable that names a metadata server. To continue there is an error."""
    monkeypatch.delenv("GPU_AGENT_STATE", raising=False)
    monkeypatch.setattr(agent, "PRODUCT", tmp_path / "product_name")
    monkeypatch.setattr(agent, "Supervisor", None)
    monkeypatch.setattr(agent, "_EMULATED_SEC", 0.5)
    return monkeypatch


WITHOUT = {
    "nobody there": lambda google: setattr(google, "address", "127.0.0.1:1"),
    "another program": lambda google: setattr(google, "flavor", "nginx"),
    "a machine that is none of ours": lambda google: google.attributes.clear(),
    "a server that fails": lambda google: google.faults.append(Fault("gpu-agent-config", 99, status=503)),
    "a server that hangs": lambda google: google.faults.append(Fault("gpu-agent-config", 99, hang=True)),
}


@pytest.mark.parametrize("without", WITHOUT.values(), ids=WITHOUT.keys())
def test_a_variable_without_a_server_does_not_start_the_agent(
    without: Callable[[FakeGoogle], None],
    own_computer: pytest.MonkeyPatch,
    google: FakeGoogle,
    capsys: pytest.CaptureFixture[str],
) -> None:
    google.attributes["gpu-agent-config"] = "{}"
    without(google)
    own_computer.setenv("GCE_METADATA_HOST", google.address)
    assert main(["run"]) == 2
    assert capsys.readouterr().out == (
        "gpu_agent.pyz run: this is not a Compute Engine VM, "
        f"GCE_METADATA_HOST is {google.address}, and no metadata server there has gpu-agent-config, "
        "so nothing is changed\n"
    )


def test_a_compute_engine_vm_loads_no_emulation(
    own_computer: pytest.MonkeyPatch, google: FakeGoogle, tmp_path: Path
) -> None:
    """The emulation isolates no job, so a Compute Engine VM ignores the variable."""
    file = tmp_path / "system.py"
    file.write_text("class EmulatedSystem:\n    of = classmethod(lambda cls, environ: 1 / 0)\n")
    google.attributes["gpu-agent-config"] = "{}"
    own_computer.setenv("GCE_METADATA_HOST", google.address)
    own_computer.setenv("GPU_AGENT_SYSTEM", str(file))
    with pytest.raises(ZeroDivisionError):
        main(["run"])
    agent.PRODUCT.write_text("Google Compute Engine\n")
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        main(["run"])


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


AGENT = Path(gpu_agent.__file__).parent


def words() -> set[str]:
    """Return all texts of the agent's code, without those of the table."""
    files = [file for file in AGENT.rglob("*.py") if file.name != "outcomes.py"]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def reasons() -> set[str]:
    """Return all reasons in the agent's code that are written directly as an argument of AgentExit."""
    nodes = (node for file in AGENT.rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    calls = (node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "AgentExit")
    firsts = [call.args[0] for call in calls]
    return {first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)}


def test_every_reason_that_the_agent_raises_is_in_the_table() -> None:
    assert len(reasons()) > 15
    assert reasons() <= set(OUTCOMES)


def test_every_reason_of_the_table_is_used() -> None:
    assert set(OUTCOMES) - words() == set()
