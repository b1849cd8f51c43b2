"""A fake GitHub and the manager's adapter to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_manager.github.adapter import GithubAdapter

from tests.manager.github.fake_github import FakeGithub, adapter


@pytest.fixture
def github() -> FakeGithub:
    return FakeGithub()


@pytest.fixture
def manager(github: FakeGithub, tmp_path: Path) -> Iterator[GithubAdapter]:
    made = adapter(github, tmp_path)
    yield made
    made.close()
