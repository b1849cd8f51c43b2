"""Building the CLI, with a `go` that is a script: interrupted, failing, and twice at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox.engine import install, locate, model
from pulumi_sandbox.engine.model import HOST, VERSION, Engine, EngineError, SourceError

from tests.sandbox.language_host.hosts import script

pytestmark = pytest.mark.usefixtures("own_folder")


def go_that(tmp_path: Path, build: str) -> None:
    """A fake `go`, whose build runs the given lines. $out is the built file."""
    script(
        tmp_path / "bin" / "go",
        'case "$1 $2" in\n'
        f'  "list -m") echo "{tmp_path}/sdk";;\n'
        '  build*) while [ "$1" != -o ]; do shift; done; out=$2\n'
        f"    {build};;\n"
        "esac",
    )
    for companion in install.SDK_SCRIPTS:
        script(tmp_path / "sdk" / companion, "exit 0")


CLI = f'printf \'#!/bin/sh\\necho v{VERSION}\\n\' > "$out"; chmod +x "$out"'


def test_the_build_leaves_a_whole_engine_behind(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, f"echo 'go: downloading a v1' >&2; echo a/b >&2; echo c/d >&2; {CLI}")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "build")
    messages: list[str] = []
    assert locate.ensure(messages.append) == Engine(own_folder, VERSION, "build")
    assert sorted(path.name for path in own_folder.iterdir()) == [
        "engine.json", "lock", "pulumi", "pulumi-language-python", "pulumi-language-python-exec",
        "pulumi-resource-pulumi-python",
    ]  # fmt: skip
    assert messages[0].startswith("no installed Pulumi CLI can be used; building one takes minutes")
    assert messages[1] == "building the Pulumi CLI"
    assert messages[-1].startswith("building the Pulumi CLI: done after")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ("echo '# c/d' >&2; echo 'x.go:1: undefined: y' >&2; exit 1", "`go build` failed: x.go:1: undefined: y"),
        ("exit 2", "`go build` failed: exit code 2"),
        (CLI.replace(VERSION, "9.9.9"), "the built CLI reports version 9.9.9, not"),
        ('echo junk > "$out"', "does not run"),
    ],
)
def test_a_build_that_fails_leaves_nothing_that_could_be_used(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str, reason: str
) -> None:
    go_that(tmp_path, build)
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "build")
    with pytest.raises(EngineError) as caught:
        locate.ensure(lambda _: None)
    assert reason in str(caught.value)
    assert locate.installed() is None
    assert not any(path.name.startswith("pulumi.") for path in own_folder.iterdir())


def test_a_build_killed_half_way_is_made_again(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL while go writes its file: the next call removes what is left and goes on."""
    go_that(tmp_path, 'echo half > "$out"; echo started > ' + f"'{tmp_path}/started'; sleep 60")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "build")
    call = [sys.executable, "-c", "from pulumi_sandbox.engine import locate; locate.ensure(print)"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, start_new_session=True) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
        os.killpg(process.pid, 9)
    assert len(list(own_folder.glob("pulumi.*.partial"))) == 1
    assert locate.installed() is None
    go_that(tmp_path, CLI)
    assert locate.ensure(lambda _: None).source == "build"
    assert list(own_folder.glob("pulumi.*.partial")) == []


def test_two_calls_build_once(own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_that(tmp_path, f"echo built >> '{tmp_path}/builds'; sleep 0.5; {CLI}")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "build")
    call = [sys.executable, "-c", "from pulumi_sandbox.engine import locate; print(locate.ensure(print).source)"]
    calls = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0] for process in calls]
    assert [output.splitlines()[-1] for output in outputs] == ["build"] * 3
    assert (tmp_path / "builds").read_text() == "built\n"


def test_without_go_the_build_says_so() -> None:
    with pytest.raises(SourceError) as caught:
        install.build(locate.home(), lambda _: None)
    assert caught.value.reason == "there is no `go` on PATH"


def test_the_launcher_survives_a_folder_with_spaces_and_quotes(tmp_path: Path) -> None:
    home = tmp_path / "it's a folder"
    python = script(home / "my python", 'echo "$PULUMI_SANDBOX_EXECUTOR|$*"')
    model.write_launcher(home)
    environment = {**os.environ, "PULUMI_SANDBOX_PYTHON": str(python)}
    answer = subprocess.run([home / HOST, "127.0.0.1:1"], capture_output=True, text=True, check=True, env=environment)
    assert answer.stdout == f"{home}/pulumi-language-python-exec|-P -m pulumi_sandbox.language_host 127.0.0.1:1\n"


def test_the_pinned_version_is_the_one_in_go_mod() -> None:
    text = (install.module_folder() / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/pkg/v3 v{VERSION}" in text
    assert f"github.com/pulumi/pulumi/sdk/v3 v{VERSION}" in text
