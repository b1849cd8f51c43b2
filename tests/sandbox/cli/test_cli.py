"""`pulumi-sandbox` on the command line: what it adds, and that everything else is the real CLI's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox import passthrough, plugins
from pulumi_sandbox.cli import arguments, main
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, Engine
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World

from tests.sandbox.conftest import Project

COMMAND = str(Path(sys.executable).parent / "pulumi-sandbox")


@pytest.mark.parametrize(
    ("words", "name", "stack", "cwd"),
    [
        ("up --stack staging", "up", "staging", None),
        ("up -s staging --yes", "up", "staging", None),
        ("up -ys staging", "up", "staging", None),
        ("up -sstaging", "up", "staging", None),
        ("--color never -v 9 pre --stack=staging", "preview", "staging", None),
        ("-C /there update -s a", "up", "a", "/there"),
        ("--cwd=/there config set key -- --stack other", "config", None, "/there"),
        ("config set --secret key -s a", "config", "a", None),
        ("", "", None, None),
        ("--help", "", None, None),
    ],
)
def test_a_command_line_is_read_as_pulumi_reads_it(words: str, name: str, stack: str | None, cwd: str | None) -> None:
    command = arguments.parse(words.split())
    assert (command.name, command.stack, command.cwd) == (name, stack, cwd)


@pytest.mark.parametrize(
    ("words", "stack"),
    [
        ("up -s dev", "dev"),
        ("down -s dev", "dev"),
        ("import -s dev a b c", "dev"),
        ("stack select dev", "dev"),
        ("stack output -s dev", "dev"),
        ("stack init dev", None),
        ("stack rm -s dev", None),
        ("stack delete -s dev", None),
        ("up -s dev --help", None),
        ("new -s dev", None),
        ("up", None),
    ],
)
def test_only_commands_on_an_existing_stack_have_it_made(words: str, stack: str | None) -> None:
    assert arguments.parse(words.split()).stack_to_create == stack


def test_help_explains_the_sandbox_without_an_engine_or_a_project(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "none"))
    for words in ([], ["--help"], ["-h"]):
        assert main.run(words) == 0
        printed = capsys.readouterr().out
        assert printed == main.HELP
    assert "pulumi-sandbox up --stack staging" in main.HELP
    assert list(tmp_path.iterdir()) == []


def test_a_missing_engine_is_an_error_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "path")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert main.run(["up"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "pulumi-sandbox: found no Pulumi CLI (version 3.259.0 or newer) and could not install one",
        "  hint: install Pulumi (https://www.pulumi.com/docs/install), then run the same command again",
    ]


@pytest.mark.parametrize(("code", "planted", "printed"), [(1, True, True), (0, True, False), (1, False, False)])
def test_faults_that_are_still_planted_are_reported_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    code: int, planted: bool, printed: bool,
) -> None:  # fmt: skip
    (tmp_path / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path / "sandbox"))
    monkeypatch.setattr(locate, "ensure", lambda *_: Engine(tmp_path, VERSION, "a test"))
    monkeypatch.setattr(plugins, "install", lambda *_: None)
    monkeypatch.setattr(passthrough, "run", lambda *_: code)
    (tmp_path / "sandbox").mkdir()
    world = World(tmp_path / "sandbox" / "world.db")
    if planted:
        world.add_fault(Fault("stockout"))
    world.close()
    assert main.run(["up", "-s", "dev"]) == code
    assert ("faults are still planted: stockout\n  hint:" in capsys.readouterr().err) is printed


@pytest.mark.parametrize("words", ["up", "preview", "world list"])
def test_a_world_that_cannot_be_read_is_one_message(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "world.db").write_text("no database" * 400)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    assert main.run(words.split()) == 1
    assert capsys.readouterr().err.removeprefix("Error: ") == (
        "world.db: the sandbox's world cannot be read: file is not a database\n"
        "  hint: delete world.db* in the sandbox's folder\n"
    )


# From here on with the real CLI.


@pytest.mark.slow
@pytest.mark.engine
def test_a_stack_that_has_a_file_is_made_once_and_its_config_and_secrets_reach_the_program(project: Project) -> None:
    runner = project(
        "import pulumi\nconfig = pulumi.Config()\n"
        "pulumi.export('greeting', config.require('who'))\npulumi.export('pw', config.require_secret('pw'))\n"
    )
    runner.run("config", "set", "--secret", "pw", "hush", "--stack", "dev")
    file = runner.project / "Pulumi.dev.yaml"
    assert "hush" not in file.read_text()
    salted = "# kept\n" + file.read_text()
    file.write_text(salted)
    shutil.rmtree(runner.folder)  # as after a fresh clone
    first = runner.run("up", "--stack", "dev", "--yes", "--skip-preview")
    assert "pulumi-sandbox: created the stack dev in the sandbox, from Pulumi.dev.yaml" in first.output
    assert "hush" not in first.output
    assert "created the stack" not in runner.run("preview", "--stack", "dev").output
    outputs = runner.json("stack", "output", "--stack", "dev", "--json", "--show-secrets")
    assert outputs == {"greeting": "world", "pw": "hush"}
    assert file.read_text() == salted
    assert not any(b"hush" in path.read_bytes() for path in runner.folder.rglob("*") if path.is_file())


@pytest.mark.engine
def test_arguments_input_and_exit_codes_are_the_real_ones(project: Project, tmp_path: Path) -> None:
    runner = project("")
    assert runner.run("version").output.strip() == f"v{VERSION}"
    unknown = runner.run("nonsense", ok=False)
    real = subprocess.run([locate.ensure(print).executable, "nonsense"], capture_output=True, text=True, check=False)
    assert (unknown.code, unknown.output) == (real.returncode, real.stdout + real.stderr)
    assert runner.run("up", "--help").output.startswith("Create or update the resources in a stack.")
    runner.run("config", "set", "odd", "--stack", "dev", "--", 'it\'s "odd" $HOME *')
    assert runner.run("config", "get", "odd", "--stack", "dev").output.strip() == 'it\'s "odd" $HOME *'
    environment = {**os.environ, "PULUMI_SANDBOX_DIR": str(runner.folder)}
    words = [COMMAND, "config", "set", "piped", "--stack", "dev", "--cwd", str(runner.project)]
    subprocess.run(words, input="from stdin", text=True, check=True, env=environment, cwd=tmp_path)
    assert runner.run("config", "get", "piped", "--stack", "dev").output.strip() == "from stdin"


@pytest.mark.slow
@pytest.mark.engine
def test_plain_pulumi_works_in_a_shell_with_our_environment(project: Project) -> None:
    runner = project("import os, pulumi\npulumi.export('aws', os.environ.get('AWS_PROFILE', 'hidden'))")
    shell = (
        f"eval \"$('{COMMAND}' env)\" && pulumi stack init dev && pulumi up --yes --skip-preview --stack dev && "
        "pulumi stack output aws && pulumi plugin ls"
    )
    environment = {**os.environ, "AWS_PROFILE": "real", "PULUMI_SANDBOX_DIR": str(runner.folder)}
    answer = subprocess.run(
        ["sh", "-c", shell], cwd=runner.project, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "\nhidden\n" in answer.stdout
    assert "warning" not in answer.stderr + answer.stdout
    for name in ("aws", "gcp", "github", "kubernetes"):
        assert re.search(rf"^{name} +resource ", answer.stdout, re.MULTILINE)
