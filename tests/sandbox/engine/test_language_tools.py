"""The generator of SDKs and the YAML language host, built with a `go` that is a script."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pulumi_sandbox.cli import arguments, own_commands
from pulumi_sandbox.engine import build, language_tools, locate
from pulumi_sandbox.engine.language_tools import SDKGEN, YAML_HOST
from pulumi_sandbox.engine.model import VERSION, Engine, EngineError

from tests.sandbox.engine.test_build import go_that

WRITES = 'echo built >> "$(dirname "$0")/log"; printf "#!/bin/sh\\n" > "$out"; chmod +x "$out"'


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders with the pins, whose files a test may change."""
    folder = tmp_path / "tools"
    for tool in (SDKGEN, YAML_HOST):
        shutil.copytree(tool.source, folder / tool.folder)
    monkeypatch.setattr(build, "module_folder", lambda: folder / "engine")
    return folder


def builds(tmp_path: Path) -> int:
    log = tmp_path / "bin" / "log"
    return len(log.read_text().splitlines()) if log.is_file() else 0


@pytest.mark.parametrize("tool", [SDKGEN, YAML_HOST])
def test_a_tool_is_built_once_and_again_when_its_pins_change(
    own_folder: Path, tools: Path, tmp_path: Path, tool: language_tools.Tool
) -> None:
    go_that(tmp_path, WRITES)
    messages: list[str] = []
    assert language_tools.ensure(tool, messages.append) == own_folder / tool.name
    assert messages[0].startswith(f"building {tool.title}; the first build takes minutes")
    assert builds(tmp_path) == 1
    messages.clear()
    language_tools.ensure(tool, messages.append)
    assert (builds(tmp_path), messages) == (1, [])
    with (tools / tool.folder / "go.sum").open("a") as pins:
        pins.write("another pin\n")
    language_tools.ensure(tool, messages.append)
    assert builds(tmp_path) == 2


@pytest.mark.usefixtures("own_folder")
def test_a_missing_go_and_a_missing_checkout_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(EngineError, match=r"hint: install Go \(see the `go` line of tools/yaml/go\.mod"):
        language_tools.ensure(YAML_HOST, lambda _: None)
    monkeypatch.setattr(build, "module_folder", lambda: tmp_path / "elsewhere" / "engine")
    with pytest.raises(EngineError, match="expected: a checkout of this repository, or an official Pulumi CLI"):
        language_tools.ensure(SDKGEN, lambda _: None)


@pytest.mark.parametrize(("way", "built"), [("build", ["sdkgen", "pulumi-language-yaml"]), ("path", [])])
def test_the_engine_command_builds_them_for_a_built_cli_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, built: list[str]
) -> None:
    ensured: list[str] = []
    monkeypatch.setattr(locate, "ensure", lambda _: Engine(tmp_path, VERSION, way))
    monkeypatch.setattr(language_tools, "ensure", lambda tool, _: ensured.append(tool.name))
    assert CliRunner().invoke(own_commands.engine_command, ["--quiet", "--languages"]).exit_code == 0
    assert ensured == built
    CliRunner().invoke(own_commands.engine_command, ["--quiet"])
    assert ensured == built


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("package add ./components", True),
        ("package gen-sdk ./components --language nodejs", True),
        ("install", True),
        ("package get-schema ./components", False),
        ("package add --help", False),
        ("stack add", False),
        ("up", False),
    ],
)
def test_only_commands_that_generate_an_sdk_need_the_generator(line: str, expected: bool) -> None:
    assert arguments.parse(line.split()).generates_sdk is expected
