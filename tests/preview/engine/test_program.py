"""Tests of the search for the Pulumi CLI, and of its files that an isolated process can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_preview.engine.program import Engine
from gpu_preview.model import Report, Status
from pulumi_sandbox.engine import locate as sandbox_engine

from tests.preview import small
from tests.sandbox.language_host.official_host import distribution

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
IN_US = small.BUCKET.replace("EU", "US")


def found(way: str, folder: Path, sandbox_clis: Path) -> Engine:
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    return Engine("3.259.0", way, folder / "pulumi", tuple(folder / name for name in names), sandbox_clis)


@pytest.mark.parametrize(
    ("way", "path", "forced"),
    [("path", "/a/b:/usr/bin", "path"), ("home", "/a/b:/usr/bin", "path"), ("official", "/usr/bin", "official"),
     ("build", "/usr/bin", "build")],
)  # fmt: skip
def test_an_isolated_process_takes_the_same_cli_and_no_other(way: str, path: str, forced: str) -> None:
    assert found(way, Path("/a/b"), Path("/kept")).variables("/usr/bin") == {
        "PATH": path,
        "PULUMI_SANDBOX_ENGINE": forced,
        "PULUMI_SANDBOX_ENGINE_DIR": "/kept",
    }


def test_only_the_cli_of_its_folder_is_readable(tmp_path: Path) -> None:
    """The folder can be a user's home, and a link would make its target readable."""
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    for name in names[:2]:
        (tmp_path / name).touch()
    (tmp_path / names[2]).symlink_to(tmp_path / "secret")
    assert found("path", tmp_path, tmp_path / "kept").readable == [tmp_path / name for name in names[:2]]


def test_a_version_manager_is_not_asked_in_the_checkout_whose_files_would_choose_the_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pulumi", "pulumi-language-python"):
        (tmp_path / name).write_text(f"#!/bin/sh\npwd > '{tmp_path}/asked-in'\necho v3.259.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{SYSTEM}")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "path")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "engine"))
    Engine.find(lambda _: None)
    assert (tmp_path / "asked-in").read_text() == "/\n"


def test_a_cli_of_a_version_manager_says_what_may_be_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pulumi", "pulumi-language-python"):
        (tmp_path / name).write_text("#!/bin/sh\necho v3.259.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{SYSTEM}")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "path")
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "engine"))
    messages: list[str] = []
    made = Engine.find(messages.append)
    assert (made.version, made.way, made.executable) == ("3.259.0", "path", tmp_path / "pulumi")
    assert messages[1:] == [
        f"Pulumi 3.259.0, {tmp_path}/pulumi",
        (
            "this CLI is a version manager's shim: if the shim starts a CLI in a home folder, put the folder of that "
            "CLI first on PATH"
        ),
    ]


def walls_of(report: Report) -> dict[str, bool]:
    return {each.name: each.stands for each in report.walls}


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", [pytest.param("the installer's folder", marks=pytest.mark.slow), "a link on PATH"])
def test_an_official_cli_in_a_hidden_folder_runs_a_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home = tmp_path / "home"
    real = sandbox_engine.ensure(print)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "no engine of the sandbox"))
    monkeypatch.delenv("PULUMI_SANDBOX_ENGINE", raising=False)
    if place == "a link on PATH":
        folder = distribution(home / "tools" / "pulumi-3", real)
        (home / "bin").mkdir()
        for name in ("pulumi", "pulumi-language-python"):
            (home / "bin" / name).symlink_to(folder / name)
        monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{SYSTEM}")
    else:
        distribution(home / ".pulumi" / "bin", real)
        (home / ".pulumi" / "credentials.json").write_text("planted-token")
        monkeypatch.setenv("PATH", SYSTEM)
    seen = f"""
from pathlib import Path
assert not Path({str(home / ".pulumi" / "credentials.json")!r}).exists()
{IN_US}"""
    repository = small.repository(tmp_path / "repository")
    small.change(repository, seen)
    report = small.ask(repository)
    assert [(stack.status, stack.counts.replace, stack.error) for stack in report.stacks] == [(Status.PREVIEWED, 1, "")]
    if "CI" in os.environ:
        assert walls_of(report) == dict.fromkeys(["environment", "limits", "files", "network", "processes"], True)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(300)
def test_a_project_of_uv_is_previewed_with_the_packages_that_uv_installed(tmp_path: Path) -> None:
    """uv itself is not started: it would install again, and have no network."""
    lock = tmp_path / "repository" / "uv.lock"
    lock.parent.mkdir()
    lock.write_text("version = 1\n")
    repository = small.repository(tmp_path / "repository", options="")
    small.change(repository, IN_US)
    report = small.ask(repository)
    assert [(stack.status, stack.counts.replace, stack.error) for stack in report.stacks] == [(Status.PREVIEWED, 1, "")]
