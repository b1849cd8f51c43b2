"""The runtime options of Pulumi.yaml choose the Python of a program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pulumi_sandbox.language_host.interpreters import OptionError, Runtime


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "a program"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"virtualenv": "gone"}, "runtime.options.virtualenv: {folder}/gone does not exist\n  got: 'gone'"),
        ({"toolchain": "conda"}, "runtime.options.toolchain: unknown toolchain\n  got: 'conda'"),
        ({"toolchain": "poetry"}, "runtime.options.toolchain: needs the official Pulumi CLI\n  got: 'poetry'"),
        ({"virtualenv": 3}, "runtime.options.virtualenv: not a string\n  got: 3"),
    ],
)
def test_runtime_options_that_cannot_be_followed_are_refused_with_their_path(
    program: Path, options: dict[str, object], text: str
) -> None:
    with pytest.raises(OptionError) as caught:
        Runtime.of(str(program), str(program), options).check()
    assert str(caught.value).startswith("Pulumi.yaml: " + text.format(folder=program))


def test_without_a_virtual_environment_the_named_then_the_active_then_our_python_runs(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime.of(str(program), str(program), {})
    monkeypatch.delenv("PULUMI_PYTHON_CMD", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert runtime.python == sys.executable
    monkeypatch.setenv("VIRTUAL_ENV", str(program / "venv"))
    assert runtime.python == sys.executable  # there is no SDK in it
    sdk = program / "venv" / "lib" / "python3.11" / "site-packages" / "pulumi"
    sdk.mkdir(parents=True)
    (sdk / "__init__.py").touch()
    assert runtime.python == str(program / "venv" / "bin" / "python")
    monkeypatch.setenv("PULUMI_PYTHON_CMD", "/somewhere/python")
    assert runtime.python == "/somewhere/python"


def test_uv_projects_run_in_the_environment_beside_their_lock(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = program / "infra"
    inner.mkdir()
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    (program / "uv.lock").touch()
    runtime = Runtime.of(str(program), str(inner), {})
    assert (runtime.toolchain, runtime.python) == ("uv", str(program / ".venv" / "bin" / "python"))
    assert Runtime.of(str(program), str(inner), {"toolchain": "pip"}).toolchain == "pip"
    chosen = Runtime.of(str(program), str(inner), {"virtualenv": "mine"})
    assert chosen.python == str(program / "mine" / "bin" / "python")
