"""Tests of the installation of a revision's own packages: commands, folders and environment variables."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gpu_preview import pulumi_files
from gpu_preview.compare.checkout import Checkout, RunContext, Snapshot
from gpu_preview.compare.compare import Comparison, Request
from gpu_preview.engine.program import Engine
from gpu_preview.environment.packages import Packages
from gpu_preview.errors import PreviewError
from gpu_preview.isolation.bubblewrap import Isolation
from gpu_preview.isolation.limits import Finished, Limits
from gpu_preview.model import Stack, Status

from tests.preview.conftest import MakeVenv
from tests.preview.repository import git

ENGINE = Engine("3.259.0", "build", Path("/nowhere/pulumi"), (), Path("/nowhere"))
PROJECT = "name: small\nruntime: {name: python, options: {virtualenv: .venv}}\n"
NOTE = (
    "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['HOME'], os.environ.get('VIRTUAL_ENV'), "
    "sys.prefix, sorted(os.listdir('.'))]))"
)


@pytest.fixture(autouse=True)
def _environments_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create environments without pip, which takes most of the time and which no command here needs."""
    creation = Packages.creation

    def without_pip(packages: Packages, root: Path) -> list[str]:
        command = creation(packages, root)
        return [*command, "--without-pip"] if command else []

    monkeypatch.setattr(Packages, "creation", without_pip)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "requirements.txt").write_text("six==1.16.0\n")
    return folder


@pytest.fixture
def head(tmp_path: Path) -> Checkout:
    scratch = tmp_path / "work"
    root = scratch / "head"
    root.mkdir(parents=True)
    (tmp_path / "own").mkdir()
    (root / "Pulumi.yaml").write_text(PROJECT)
    (root / "requirements.txt").write_text("six==1.17.0\n")
    around = RunContext(scratch, tmp_path / "own", Isolation((), "none"), Limits(), ENGINE, lambda _: None)
    return Checkout("head", root, root, around)


def test_a_chosen_command_runs_in_the_project_with_its_environment_active(checkout: Path, head: Checkout) -> None:
    made = head.root / ".venv"
    head.install(Packages(checkout, checkout), f'python -c "{NOTE}"')
    cwd, home, active, prefix, _ = json.loads((head.context.own / "head-install.stdout").read_text())
    assert (cwd, active, prefix) == (str(head.root), str(made), str(made))
    assert Path(home).parent.name.startswith("install-")
    assert head.installed_with == [f'head: python -c "{NOTE}"']


def test_a_lock_is_installed_where_nothing_of_the_side_is_imported_or_obeyed(
    checkout: Path, head: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("venv.py", "pip.py", "sitecustomize.py"):
        (head.root / name).write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.setattr(Packages, "installation", lambda *_: [sys.executable, "-I", "-c", NOTE])
    head.install(Packages(checkout, checkout), "")
    cwd, home, _, _, beside = json.loads((head.context.own / "head-install.stdout").read_text())
    assert (Path(cwd).parent, Path(home).parent) == (head.context.scratch, Path(cwd))
    assert beside == ["home", "tmp"]
    assert not (tmp_path / "imported").exists()
    assert head.installed_with == ["head: packages by name, as wheels"]


@pytest.mark.slow
def test_an_installation_that_fails_had_the_network_all_the_same(checkout: Path, head: Checkout) -> None:
    with pytest.raises(PreviewError, match=r"^its packages cannot be installed: .*no such thing"):
        head.install(Packages(checkout, checkout), "python -c \"raise SystemExit('no such thing')\"")
    assert len(head.installed_with) == 1


@pytest.mark.parametrize(
    ("options", "rewritten"),
    [("{toolchain: uv}", True), ("{toolchain: poetry}", True), ("{virtualenv: .venv}", False)],
)
def test_neither_uv_nor_poetry_is_started_for_a_program_that_has_its_packages(
    checkout: Path, head: Checkout, options: str, rewritten: bool, make_venv: MakeVenv
) -> None:
    """uv and poetry would install into the environment again, and have no network access."""
    text = f"name: small\nruntime: {{name: python, options: {options}}}\n"
    for folder in (checkout, head.root):
        (folder / "Pulumi.yaml").write_text(text)
        (folder / "requirements.txt").write_text("")
    git(checkout, "init", "-q")
    make_venv(checkout / ".venv")
    head.install(Packages(checkout, checkout), "")
    assert (head.root / ".venv" / "bin" / "python").exists()
    expected = {"toolchain": "pip", "virtualenv": str(head.root / ".venv")} if rewritten else {"virtualenv": ".venv"}
    assert pulumi_files.settings(head.project)["runtime"]["options"] == expected


@pytest.mark.slow
def test_an_installation_that_makes_the_project_a_link_writes_nothing_elsewhere(
    checkout: Path, head: Checkout, tmp_path: Path, make_venv: MakeVenv
) -> None:
    """gpu-ci itself is not isolated, and writes the project file if uv or poetry manages the packages."""
    victim = tmp_path / "victim"
    text = "name: theirs\nruntime: {name: python, options: {toolchain: uv}}\n"
    for folder in (checkout / "infra", head.root / "infra", victim):
        folder.mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text(text)
        (folder / "requirements.txt").write_text(f"six==1.17.{len(folder.parts)}\n")
    head = replace(head, project=head.root / "infra")
    git(checkout, "init", "-q")
    make_venv(checkout / "infra" / ".venv")
    swap = f"import os; os.rename('{head.project}', '{head.root}/moved'); os.symlink('{victim}', '{head.project}')"
    with pytest.raises(PreviewError, match=r"^the installation replaced the project folder"):
        head.install(Packages(checkout, checkout / "infra"), f'python -c "{swap}"')
    assert (victim / "Pulumi.yaml").read_text() == text


def world(folder: Path) -> Path:
    (folder / "backend").mkdir(parents=True)
    (folder / "backend" / "state.json").write_text("{}")
    (folder / "ports.json").write_text("1")
    (folder / "logs").mkdir()
    return folder


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def saved(tmp_path: Path) -> Snapshot:
    scratch = tmp_path / "work"
    world(scratch / "world")
    (scratch / "home").mkdir()
    (scratch / "home" / "settings").write_text("the base's")
    return Snapshot.of(scratch, tmp_path / "own")


def test_the_state_of_the_base_is_restored_over_any_files(tmp_path: Path) -> None:
    kept = saved(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    for _ in range(2):
        (kept.scratch / "world" / "backend" / "state.json").write_text("the head's")
        (kept.scratch / "home" / "settings").unlink()
        (kept.scratch / "home").rmdir()
        (kept.scratch / "home").symlink_to(outside)
        os.mkfifo(kept.scratch / "tmp")
        kept.restore()
        assert everything(kept.scratch) == [
            "home",
            "home/settings",
            "world",
            "world/backend",
            "world/backend/state.json",
        ]
        assert (kept.scratch / "world" / "backend" / "state.json").read_text() == "{}"
        assert (kept.scratch / "home" / "settings").read_text() == "the base's"
    assert (outside / "precious").read_text() == "kept"


def test_neither_a_pipe_nor_a_link_of_the_base_is_copied(tmp_path: Path) -> None:
    made = world(tmp_path / "work" / "world")
    os.mkfifo(made / "backend" / "pipe")
    (made / "leak").symlink_to(tmp_path)
    Snapshot.of(tmp_path / "work", tmp_path / "own")
    assert everything(tmp_path / "own") == ["world", "world/backend", "world/backend/state.json"]


def side(tmp_path: Path, stacks: list[str], **more: Any) -> Any:
    return SimpleNamespace(
        root=tmp_path,
        files={name: tmp_path / f"Pulumi.{name}.yaml" for name in stacks},
        file=lambda name: f"Pulumi.{name}.yaml",
        context=SimpleNamespace(say=lambda _: None),
        **more,
    )


def compared(before: Any, after: Any, policies: Any = None, **more: Any) -> Comparison:
    return Comparison(Request(base="main"), before, after, policies, cast(Any, None), **more)


def test_a_fault_of_ours_is_reported_in_the_report_and_the_next_stack_is_compared(tmp_path: Path) -> None:
    def breaks(name: str) -> None:
        raise RecursionError(f"too deep in {name}\x1b[2J")

    head = side(tmp_path, ["dev", "prod"], set_placeholders=breaks)
    comparison = compared(side(tmp_path, ["dev"]), head, base_failed={"prod": "the base is broken"})
    found = [comparison.stack(name) for name in ("dev", "prod")]
    assert [(each.status, each.error) for each in found] == [
        (Status.FAILED, "the report on this stack failed, which is a bug in gpu-ci: RecursionError: too deep in dev"),
        (Status.BASE_FAILED, "the base is broken"),
    ]


def test_a_head_that_cannot_run_is_reported_of_each_stack_that_it_has(tmp_path: Path) -> None:
    before = side(tmp_path, ["dev", "old"], exported=lambda _: "")
    after = side(tmp_path, ["dev"])
    comparison = compared(before, after, head_failed="its packages cannot be installed")
    assert [(comparison.stack(name).status, comparison.stack(name).error) for name in ("dev", "old")] == [
        (Status.FAILED, "its packages cannot be installed"),
        (Status.REMOVED, ""),
    ]


def previewed(tmp_path: Path, code: int = 0) -> Stack:
    """Return the report on a new stack whose preview exits with this code and without an error message."""
    out, error, events = (tmp_path / name for name in ("out", "error", "events"))
    out.write_text('{"steps": []}')
    error.write_text("it ended in the middle\n")
    events.touch()
    head = side(
        tmp_path,
        ["dev"],
        project=tmp_path,
        set_placeholders=lambda _: None,
        preview=lambda *_: (Finished(code, out, error, 1.0), events),
    )
    selection = SimpleNamespace(options=(), sentence=lambda asked: asked)
    return compared(side(tmp_path, []), head, policies=selection).stack("dev")


def test_a_preview_that_fails_without_an_error_in_its_digest_is_a_failure(tmp_path: Path) -> None:
    assert (previewed(tmp_path).status, previewed(tmp_path).error) == (Status.NEW, "")
    failed = previewed(tmp_path, code=1)
    assert (failed.status, failed.error) == (Status.FAILED, "it ended in the middle")
