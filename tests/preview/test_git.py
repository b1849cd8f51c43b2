"""Two commits as folders, from git alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpu_preview.git import GitError, Repository, stack_files

IDENTITY = {f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    answer = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a project in a folder of it, and two commits."""
    root = tmp_path / "a repository"
    project = root / "infra"
    project.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (project / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    (project / "Pulumi.dev.yaml").write_text("config: {}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "change")
    (project / "Pulumi.dev.yaml").write_text("config: {a: 1}\n")
    (project / "Pulumi.prod.yaml").symlink_to("/etc/passwd")
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


def test_the_project_is_the_nearest_upwards_within_the_checkout(checkout: Path) -> None:
    inner = checkout / "infra" / "deep"
    inner.mkdir()
    found = Repository.find(inner)
    assert (found.root, str(found.project)) == (checkout.resolve(), "infra")


def test_a_folder_without_a_project_or_a_repository_is_said(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"no Pulumi project\n  got: .*a repository\n  expected: a Pulumi.yaml"):
        Repository.find(checkout)
    with pytest.raises(GitError, match="not a git repository"):
        Repository.find(tmp_path)


def test_a_ref_is_its_commit_and_an_unknown_one_says_what_to_fetch(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    assert found.commit("main") == git(checkout, "rev-parse", "main")
    with pytest.raises(GitError, match=r"no commit named 'origin/next'\n  hint: .* git fetch --depth=1 origin next"):
        found.commit("origin/next")
    with pytest.raises(GitError, match="no commit named"):
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


def test_a_side_is_the_files_of_its_commit_and_nothing_of_git(checkout: Path, tmp_path: Path) -> None:
    found = Repository.find(checkout / "infra")
    (checkout / "infra" / "Pulumi.dev.yaml").write_text("not committed")
    before = git(checkout, "status", "--porcelain")
    base, head = tmp_path / "sides" / "base", tmp_path / "sides" / "head"
    found.export(found.commit("main"), base)
    found.export(found.commit("change"), head)
    assert (base / "infra" / "Pulumi.dev.yaml").read_text() == "config: {}\n"
    assert (head / "infra" / "Pulumi.dev.yaml").read_text() == "config: {a: 1}\n"
    assert sorted(path.name for path in (tmp_path / "sides").iterdir()) == ["base", "head"]
    assert not (head / ".git").exists()
    assert git(checkout, "status", "--porcelain") == before
    assert git(checkout, "worktree", "list").count("\n") == 0


def test_no_hook_of_the_checkout_runs(checkout: Path, tmp_path: Path) -> None:
    hook = checkout / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    found = Repository.find(checkout / "infra")
    found.export(found.commit("main"), tmp_path / "sides" / "base")
    assert not (tmp_path / "ran").exists()


def test_a_link_is_no_stack_file(checkout: Path) -> None:
    assert list(stack_files(checkout / "infra")) == ["dev"]


def test_what_no_commit_has_is_known(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    assert not found.is_dirty()
    (checkout / "infra" / "Pulumi.dev.yaml").write_text("other")
    assert found.is_dirty()
    assert found.differs("main", "change")
    assert not found.differs("main", "main")
