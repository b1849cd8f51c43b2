"""Fixtures of the tests of whole pull requests: the repository with their branches, and its deployed base."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_preview.compare.checkout import copy
from gpu_preview.compare.compare import Comparison, Request, compare
from gpu_preview.engine.program import Engine
from gpu_preview.git.repository import Repository
from gpu_preview.model import Report

from tests.preview import repository
from tests.preview.pull_requests import PULL_REQUESTS

MakeVenv = Callable[[Path], Path]


@pytest.fixture(scope="session")
def _empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def make_venv(_empty_venv: Path) -> MakeVenv:
    """Return a function that copies an environment without packages, because creating one takes half a second."""

    def make(folder: Path) -> Path:
        return shutil.copytree(_empty_venv, folder, symlinks=True)

    return make


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the search return a missing Pulumi CLI, for errors before it runs. A real search starts a process."""
    engine = Engine("3.259.0", "build", Path("/nowhere/pulumi"), (), Path("/nowhere"))
    monkeypatch.setattr(Engine, "find", lambda _: engine)


@pytest.fixture(scope="session")
def pull_requests(shared: Path) -> Path:
    """Return the repository, which the first worker of pytest-xdist creates."""
    folder = shared / "pull requests" / "a repository"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_name("draft")
            repository.start(draft, Path(__file__).with_name("stack"))
            draft.rename(folder)
            # An environment knows where it was made.
            repository.provide_environment(folder)
    return folder


def keep_bases(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy each base once: keep its emulated clouds in a folder."""
    folder.mkdir(exist_ok=True)
    deploy = Comparison.deploy_base

    def deploy_or_copy(comparison: Comparison) -> None:
        world = comparison.before.context.scratch / "world"
        kept = folder / "-".join((comparison.commits[0], *comparison.names))
        if kept.exists():
            shutil.rmtree(world, ignore_errors=True)
            copy(kept, world)
            return
        deploy(comparison)
        if world.exists() and not comparison.base_failed:
            copy(world, kept)

    monkeypatch.setattr(Comparison, "deploy_base", deploy_or_copy)


@pytest.fixture
def preview(pull_requests: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Return a function that previews a branch. The base is deployed once for all tests."""

    def run(head: str, stack: str = "staging", **options: object) -> Report:
        cache = pull_requests.parent / "worlds"
        keep_bases(cache, monkeypatch)
        with (pull_requests.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for change in PULL_REQUESTS:
                if change.name == head and not repository.git(pull_requests, "branch", "--list", head):
                    repository.branch(pull_requests, head, change.edit)
            if any(cache.iterdir()):  # only the test that deploys the base keeps the others waiting
                fcntl.flock(lock, fcntl.LOCK_UN)
            packs = (pull_requests / "policies",)
            request = Request(base="main", head=head, stacks=(stack,), packs=packs, **options)  # type: ignore[arg-type]
            return compare(request, Repository.find(pull_requests), lambda _: None)

    return run
