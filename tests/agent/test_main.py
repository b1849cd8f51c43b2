"""The command line of the agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_agent import __main__ as agent
from gpu_agent.__main__ import main

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
