"""Tests of the search for the Pulumi CLI, and of its files that an isolated process can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_preview.engine.program import Engine, failure
from gpu_preview.isolation.limits import Finished
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


def finished(folder: Path, out: str = "", err: str = "", exceeded_limit: str = "") -> Finished:
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    return Finished(1, folder / "out", folder / "err", 1.0, exceeded_limit)


@pytest.mark.parametrize(
    ("out", "err", "exceeded_limit", "expected"),
    [
        ("", "error: no", "", "error: no"),
        ("Diagnostics: why", "made the stack", "", "Diagnostics: why\nmade the stack"),
        (' {"steps": [', "error: no", "it took longer than 5 s", "it took longer than 5 s\nerror: no"),
        ("", "", "it printed more than 1 MiB", "it printed more than 1 MiB"),
    ],
)
def test_it_is_the_limit_and_what_was_printed(
    tmp_path: Path, out: str, err: str, exceeded_limit: str, expected: str
) -> None:
    assert failure(finished(tmp_path, out, err, exceeded_limit), tmp_path) == expected


UP = """\
Updating (dev):
 +  pulumi:pulumi:Stack p-dev creating
 +  a:b:C c creating error: no d
Diagnostics:
  a:b:C (c):
    error: no d
      got: e

  pulumi:pulumi:Stack (p-dev):
    error: update failed
{}"""


@pytest.mark.parametrize("after", ["", "\nResources:\n    + 1 created\n\nDuration: 1s\n"])
def test_the_steps_before_the_errors_of_an_up_are_left_out(tmp_path: Path, after: str) -> None:
    assert failure(finished(tmp_path, UP.format(after), "error: update failed"), tmp_path) == (
        "a:b:C (c):\n  error: no d\n    got: e\n\npulumi:pulumi:Stack (p-dev):\n  error: update failed\n"
        "error: update failed"
    )


def test_a_program_that_missed_the_network_is_reported_how_to_have_it(tmp_path: Path) -> None:
    text = "OSError: [Errno -3] Temporary failure in name resolution"
    message = failure(finished(tmp_path, err=text), tmp_path)
    assert message == f"{text}\n  hint: the program has no network here; --with-network gives it one"
    assert failure(finished(tmp_path, err=text), tmp_path, isolated=False) == text


INTERRUPTED = """\
Diagnostics:
  pulumi:pulumi:Stack (p-dev):
    error: update failed

    Traceback (most recent call last):
      File "/opt/pulumi/pulumi-language-python-exec", line 232, in <module>
        loop.run_until_complete(coro)
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    KeyboardInterrupt
    During handling of the above exception, another exception occurred:
    Traceback (most recent call last):
      File "/opt/pulumi/pulumi-language-python-exec", line 244, in <module>
        executor.shutdown(wait=True)
    KeyboardInterrupt

  a:b:C (c):
    error: no d
    Traceback (most recent call last):
      File "program.py", line 1, in <module>
        d()
    ValueError: a word of the program's own
"""


def test_that_pulumi_ended_the_program_is_no_error_of_the_program(tmp_path: Path) -> None:
    """Pulumi's language host interrupts the program after a resource has failed, and Python prints a traceback."""
    message = failure(finished(tmp_path, INTERRUPTED), tmp_path)
    assert [line for line in message.splitlines() if line] == [
        "pulumi:pulumi:Stack (p-dev):",
        "  error: update failed",
        "a:b:C (c):",
        "  error: no d",
        "  Traceback (most recent call last):",
        '    File "program.py", line 1, in <module>',
        "      d()",
        "  ValueError: a word of the program's own",
    ]


@pytest.mark.parametrize("isolated", [True, False])
def test_a_missing_package_gets_a_hint_about_the_environment(tmp_path: Path, isolated: bool) -> None:
    message = failure(finished(tmp_path, "", "ModuleNotFoundError: No module named 'x'"), tmp_path, isolated=isolated)
    assert ("hint: the program runs with the packages of the environment that Pulumi.yaml names" in message) is isolated
