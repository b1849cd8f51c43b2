"""What the tests of whole pull requests share: the repository with their branches, and the world of its base."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.git.repository import Repository
from gpu_preview.model import Report

from tests.preview import repository


@pytest.fixture(scope="session")
def pull_requests(shared: Path) -> Path:
    """The repository; made once, whichever worker of pytest-xdist is first."""
    folder = shared / "pull requests" / "a repository"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_name("draft")
            repository.with_every_branch(draft)
            draft.rename(folder)
            # An environment knows where it was made.
            repository.lend_environment(folder)
    return folder


@pytest.fixture
def preview(pull_requests: Path) -> Callable[..., Report]:
    """`gpu-ci preview` of a branch; the base is brought up once for all tests."""

    def ask(head: str, stack: str = "staging", **more: object) -> Report:
        kept = pull_requests.parent / "worlds"
        kept.mkdir(exist_ok=True)
        with (pull_requests.parent / "lock").open("w") as lock:
            if not any(kept.iterdir()):  # only who brings it up keeps the others waiting
                fcntl.flock(lock, fcntl.LOCK_EX)
            packs = (pull_requests / "policies",)
            request = Request(base="main", head=head, stacks=(stack,), packs=packs, cache=kept, **more)  # type: ignore[arg-type]
            return compare(request, Repository.find(pull_requests), lambda _: None)

    return ask
