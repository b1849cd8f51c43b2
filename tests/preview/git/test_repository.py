"""Tests of the checkout around a folder, its commits, and the stacks of its project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository, stack_files, tracks

from tests.preview import checkouts
from tests.preview.repository import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return checkouts.start(tmp_path / "a repository")


def test_the_project_is_the_nearest_upwards_within_the_checkout(checkout: Path) -> None:
    inner = checkout / "infra" / "deep"
    inner.mkdir()
    found = Repository.find(inner)
    assert (found.root, str(found.project)) == (checkout.resolve(), "infra")


def test_a_folder_without_a_project_or_a_repository_is_an_error(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(PreviewError, match=r"no Pulumi project\n  got: .*a repository\n  expected: a Pulumi.yaml"):
        Repository.find(checkout)
    with pytest.raises(PreviewError, match="not a git repository"):
        Repository.find(tmp_path)


def test_a_ref_is_its_commit_and_an_unknown_one_says_what_to_fetch(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    assert found.commit("main") == git(checkout, "rev-parse", "main")
    with pytest.raises(
        PreviewError, match=r"no commit named 'origin/next'\n  hint: .* git fetch --depth=1 origin next"
    ):
        found.commit("origin/next")
    with pytest.raises(PreviewError, match="no commit named"):
        found.commit("--output=/tmp/x")


def test_the_base_is_where_the_head_left_it(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    left = found.commit("main")
    git(checkout, "checkout", "-q", "main")
    (checkout / "later").write_text("")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "later")
    assert found.commit("main") != left
    assert found.fork_point("main", "change") == left


def test_a_stack_has_a_name_that_the_engine_takes(tmp_path: Path) -> None:
    names = ["dev", "a.b_c-9", "x" * 100, "x" * 101, "a b", "\u00e9", "a\nb", os.fsdecode(b"\xff"), "x" * 236]
    for name in names:
        (tmp_path / f"Pulumi.{name}.yaml").write_text("")
    assert set(stack_files(tmp_path)) == {"dev", "a.b_c-9", "x" * 100}


def test_uncommitted_changes_are_detected(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    assert not found.is_dirty()
    (checkout / "infra" / "Pulumi.dev.yaml").write_text("other")
    assert found.is_dirty()


def test_what_git_tracks_is_known_by_its_name_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").write_text("")
    (tmp_path / "link").symlink_to("env")
    assert not tracks(tmp_path, tmp_path / "env")
    git(tmp_path, "add", "--all")
    for name, tracked in (("env", True), ("env/bin", True), ("link", True), ("en*", False), (":(top)env", False)):
        assert tracks(tmp_path, tmp_path / name) is tracked
