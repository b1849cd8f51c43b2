"""Tests that no file of a pull request makes git run a program or use another repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository

from tests.preview import checkouts
from tests.preview.repository import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return checkouts.start(tmp_path / "a repository")


def test_no_hook_of_the_checkout_runs(checkout: Path, tmp_path: Path) -> None:
    hook = checkout / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    found = Repository.find(checkout / "infra")
    found.export(found.commit("main"), tmp_path / "sides" / "base")
    assert not (tmp_path / "ran").exists()


def planted(checkout: Path, tmp_path: Path) -> Path:
    """Create a program that records that it ran."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/ran'\ncat\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_no_filter_of_anybodys_configuration_runs_over_the_files(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (checkout / ".gitattributes").write_text("* filter=mine text eol=crlf ident\n")
    (checkout / "infra" / "ident").write_text("$Id$\n")
    git(checkout, "add", ".gitattributes", "infra/ident")
    git(checkout, "commit", "-qm", "filters")
    program = planted(checkout, tmp_path)
    for name in ("smudge", "process"):
        subprocess.run(["git", "config", scope, f"filter.mine.{name}", str(program)], cwd=checkout, check=True)
    found = Repository.find(checkout / "infra")
    found.export(found.commit("change"), tmp_path / "sides" / "head")
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "sides" / "head" / "infra" / "Pulumi.dev.yaml").read_bytes() == b"config: {a: 1}\n"
    assert (tmp_path / "sides" / "head" / "infra" / "ident").read_bytes() == b"$Id$\n"


def test_looking_for_changes_runs_neither_a_monitor_nor_a_hook(checkout: Path, tmp_path: Path) -> None:
    program = planted(checkout, tmp_path)
    git(checkout, "config", "core.fsmonitor", str(program))
    hook = checkout / ".git" / "hooks" / "post-index-change"
    hook.write_bytes(program.read_bytes())
    hook.chmod(0o755)
    # A file that may have changed, though it has not: git looks at it and writes its index anew.
    os.utime(checkout / "infra" / "Pulumi.yaml", (1, 1))
    assert not Repository.find(checkout / "infra").is_dirty()
    assert not (tmp_path / "ran").exists()


LOOKS_LIKE_A_REPOSITORY = """[core]
	repositoryformatversion = 1
	bare = false
	worktree = .
	sshCommand = "touch {ran}; false"
	fsmonitor = "touch {ran}; false"
[extensions]
	partialClone = origin
[remote "origin"]
	url = ssh://x.invalid/y
	promisor = true
	fetch = +refs/heads/*:refs/remotes/origin/*
[protocol "ssh"]
	allow = always
"""


def test_a_folder_with_the_files_of_a_repository_is_no_checkout(checkout: Path, tmp_path: Path) -> None:
    project = checkout / "infra"
    for folder in ("objects", "refs/heads"):
        (project / folder).mkdir(parents=True)
        (project / folder / ".keep").write_text("")
    (project / "HEAD").write_text("ref: refs/heads/main\n")
    (project / "refs" / "heads" / "main").write_text("1" * 40 + "\n")
    (project / "config").write_text(LOOKS_LIKE_A_REPOSITORY.format(ran=tmp_path / "ran"))
    git(checkout, "add", "--all")
    git(checkout, "commit", "-qm", "innocent")
    found = Repository.find(project)
    assert (found.root, found.git_folder) == (checkout, checkout / ".git")
    assert found.commit("main") == git(checkout, "rev-parse", "main")
    assert not found.is_dirty()
    found.export(found.commit("change"), tmp_path / "sides" / "head")
    assert not (tmp_path / "ran").exists()


def test_a_root_that_only_looks_like_a_repository_is_refused(checkout: Path, tmp_path: Path) -> None:
    """Its `.git` is not a repository, as after an interrupted clone. git would search in the folder and its parents."""
    git(tmp_path, "init", "-q")
    for name in ("HEAD", "config"):
        (checkout / name).write_text((checkout / ".git" / name).read_text())
    for name in ("objects", "refs"):
        (checkout / name).mkdir()
    (checkout / ".git" / "HEAD").unlink()
    with pytest.raises(PreviewError, match=r"git rev-parse: .*a repository"):
        Repository.find(checkout / "infra")


def test_git_and_this_must_mean_the_same_repository(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncase "$*" in *--absolute*) echo /elsewhere;; *) echo "$PWD/.git";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    with pytest.raises(PreviewError) as refused:
        Repository.find(checkout / "infra")
    assert str(refused.value) == (
        f"{checkout}: git finds another repository here\n  got: /elsewhere\n  expected: {checkout}/.git"
    )


def test_nothing_is_fetched_from_a_remote_whatever_the_configuration_allows(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{checkout}", str(partial))
    for name, value in {
        "remote.origin.url": "ssh://x.invalid/y",
        "core.sshCommand": f"touch '{tmp_path}/ran'; false",
        "protocol.ssh.allow": "always",
    }.items():
        git(partial, "config", name, value)
    (partial / "Pulumi.yaml").write_text("")
    with pytest.raises(PreviewError) as refused:
        Repository.find(partial).export("HEAD", tmp_path / "sides" / "head")
    assert re.search(r"could not fetch [0-9a-f]{40} from promisor remote", str(refused.value))
    assert str(refused.value).endswith("\n  hint: a partial clone lacks files; clone without --filter")
    assert not (tmp_path / "ran").exists()


def test_no_object_stands_in_for_another(checkout: Path, tmp_path: Path) -> None:
    found = Repository.find(checkout / "infra")
    blob, other = (git(checkout, "rev-parse", f"{each}:infra/Pulumi.dev.yaml") for each in ("change", "main"))
    git(checkout, "replace", blob, other)
    git(checkout, "replace", git(checkout, "rev-parse", "change"), git(checkout, "rev-parse", "main"))
    found.export("change", tmp_path / "sides" / "head")
    assert (tmp_path / "sides" / "head" / "infra" / "Pulumi.dev.yaml").read_text() == "config: {a: 1}\n"


def test_a_git_dir_of_another_repository_is_not_followed(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = checkouts.start(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert Repository.find(checkout / "infra").git_folder == checkout / ".git"
    with pytest.raises(PreviewError, match=r"not a git repository\n  got: .*\n.*\n  hint: .* GIT_DIR is not followed"):
        Repository.find(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("GIT_OBJECT_DIRECTORY", "nowhere"), ("GIT_COMMON_DIR", "nowhere"), ("GIT_WORK_TREE", "/")]
)
def test_the_environment_leads_git_nowhere_else(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    expected = git(checkout, "rev-parse", "main")
    monkeypatch.setenv(name, value)
    found = Repository.find(checkout / "infra")
    assert (found.commit("main"), found.is_dirty()) == (expected, False)


def test_a_worktree_is_a_checkout_of_the_same_repository(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "-q", str(tmp_path / "tree"), "main")
    found = Repository.find(tmp_path / "tree" / "infra")
    assert (found.root, found.git_folder.parent) == (tmp_path / "tree", checkout / ".git" / "worktrees")
    assert (found.commit("HEAD"), found.is_dirty()) == (git(checkout, "rev-parse", "main"), False)
    (tmp_path / "tree" / "infra" / "Pulumi.dev.yaml").write_text("")
    assert found.is_dirty()


def test_control_characters_in_gits_message_are_escaped(tmp_path: Path) -> None:
    hidden = tmp_path / "\u202e"
    hidden.mkdir()
    (hidden / ".git").write_text("gitdir: nowhere")
    with pytest.raises(PreviewError) as refused:
        Repository.find(hidden)
    assert str(refused.value) == f"git rev-parse: fatal: not a git repository: {tmp_path}/\\u202e/nowhere"
