"""A sandbox whose folder is read-only or full, or whose world is busy: one message, and no traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox import plugins
from pulumi_sandbox.cli import main
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, Engine
from pulumi_sandbox.world import file as world_file
from pulumi_sandbox.world.store import World

COMMAND = str(Path(sys.executable).parent / "pulumi-sandbox")
HINT = "  hint: make this folder writable and free disk space, or set PULUMI_SANDBOX_DIR to a writable folder\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a sandbox"
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(folder))
    monkeypatch.setattr(locate, "ensure", lambda _: Engine(tmp_path, VERSION, "path"))
    monkeypatch.setattr(plugins, "install", lambda workspace: workspace.prepare())
    return folder


@pytest.mark.parametrize("words", ["world list", "world break crash", "preview --stack dev", "env"])
def test_a_folder_that_cannot_be_made_is_one_message(
    root: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root.write_text("a file in its place")
    assert main.run(words.split()) == 1
    path, _, problem = capsys.readouterr().err.partition(": ")
    assert Path(path).is_relative_to(root)
    assert problem in (f"File exists\n{HINT}", f"Not a directory\n{HINT}")


@pytest.mark.parametrize("words", ["world list", "world break crash", "preview --stack dev", "up"])
def test_a_read_only_world_is_one_message(
    root: Path, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    World(root / "world.db").close()
    really_open = os.open

    def read_only(path: str | Path, flags: int, *more: int) -> int:
        if Path(path).is_relative_to(root) and flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return really_open(path, flags, *more)

    monkeypatch.setattr(os, "open", read_only)
    assert main.run(words.split()) == 1
    assert capsys.readouterr().err == f"{root}/world.db: Read-only file system\n{HINT}"


@pytest.mark.parametrize("words", ["world list", "world break crash", "env"])
@pytest.mark.parametrize("made", [True, False])
def test_a_folder_that_takes_no_more_is_one_message(root: Path, words: str, made: bool) -> None:
    """The system refuses every byte that this process would write into a file."""
    if made:
        World(root / "world.db").close()
    # A shell sets the limit: Python would do it between a fork and the command, where gRPC, which other tests of this
    # process have loaded, may abort.
    ran = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$0" "$@"', COMMAND, *words.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    path, _, problem = ran.stderr.removeprefix("Error: ").partition(": ")
    assert Path(path).is_relative_to(root)
    assert problem.endswith(f"\n{HINT}")
    assert ran.stderr.count("\n") == 2


def test_a_world_that_another_command_writes_to_keeps_its_own_words(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_file, "BUSY_SECONDS", 0.1)
    world = World(root / "world.db")
    with world.transaction():
        assert main.run(["world", "list"]) == 1
    world.close()
    assert capsys.readouterr().err.removeprefix("Error: ") == (
        "world.db: database is locked\n"
        "  hint: another command is using this sandbox; run this command again when the other one has finished\n"
    )
