"""Two commits as folders, from git alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpu_preview.git import GitError, Repository, misnamed, stack_files

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


def planted(checkout: Path, tmp_path: Path) -> Path:
    """A program that notes down that it ran."""
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


def test_a_ref_that_looks_like_an_option_is_a_ref(checkout: Path) -> None:
    git(checkout, "update-ref", "refs/heads/-x", "main")
    assert Repository.find(checkout / "infra").commit("-x") == git(checkout, "rev-parse", "main")


def test_files_keep_their_content_their_mode_and_their_links(checkout: Path, tmp_path: Path) -> None:
    (checkout / "run").write_bytes(b"\x00\r\n" * 700_000)
    (checkout / "run").chmod(0o755)
    (checkout / "empty").write_text("")
    (checkout / "a\nname\twith all \u2028").write_text("said")
    (checkout / "folder").symlink_to("infra")
    git(checkout, "add", ".")
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(checkout, "commit", "-qm", "files")
    side = tmp_path / "sides" / "head"
    Repository.find(checkout / "infra").export("HEAD", side)
    assert (side / "run").read_bytes() == b"\x00\r\n" * 700_000
    assert [bool((side / name).stat().st_mode & 0o100) for name in ("run", "empty")] == [True, False]
    assert (side / "a\nname\twith all \u2028").read_text() == "said"
    assert [str((side / name).readlink()) for name in ("folder", "infra/Pulumi.prod.yaml")] == ["infra", "/etc/passwd"]
    assert not (side / "module").exists()


def tree(folder: Path, *entries: bytes) -> str:
    """A tree of any entries, as git itself would write none."""
    answer = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        cwd=folder, input=b"".join(entries), capture_output=True, check=True,
    )  # fmt: skip
    return answer.stdout.decode().strip()


def entry(mode: str, name: str, ident: str) -> bytes:
    return f"{mode} {name}".encode() + b"\0" + bytes.fromhex(ident)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["..", "file"], "'../file': is no path that git would check out"),
        ([".git", "hooks"], "'.git/hooks': is no path that git would check out"),
        ([".GIT", "hooks"], "'.GIT/hooks': is no path that git would check out"),
        ([".", "file"], "'./file': is no path that git would check out"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(checkout: Path, tmp_path: Path, names: list[str], problem: str) -> None:
    blob = git(checkout, "rev-parse", "main:infra/Pulumi.yaml")
    hostile = tree(checkout, entry("40000", names[0], tree(checkout, entry("100644", names[1], blob))))
    with pytest.raises(GitError) as refused:
        Repository.find(checkout / "infra").export(hostile, tmp_path / "sides" / "head")
    assert str(refused.value) == f"{hostile[:10]}: {problem}"
    assert list((tmp_path / "sides").rglob("*")) == [tmp_path / "sides" / "head"]


def test_nothing_is_written_through_a_link_of_the_same_tree(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (checkout / "target").symlink_to(tmp_path / "mine")
    git(checkout, "add", "target")
    git(checkout, "commit", "-qm", "link")
    blob, link = (git(checkout, "rev-parse", f"HEAD:{path}") for path in ("infra/Pulumi.yaml", "target"))
    inner = tree(checkout, entry("100644", "file", blob))
    hostile = tree(checkout, entry("120000", "a", link), entry("40000", "a", inner))
    with pytest.raises(GitError, match=r"'a': cannot be written: File exists"):
        Repository.find(checkout / "infra").export(hostile, tmp_path / "sides" / "head")
    twice = tree(checkout, entry("100644", "a", blob), entry("100755", "a", blob))
    with pytest.raises(GitError, match=r"'a': cannot be written: File exists"):
        Repository.find(checkout / "infra").export(twice, tmp_path / "sides" / "base")
    assert list((tmp_path / "mine").iterdir()) == []


def test_what_git_lacks_is_said(checkout: Path, tmp_path: Path) -> None:
    hostile = tree(checkout, entry("100644", "a", "12" * 20))
    with pytest.raises(GitError, match=f"'a': git does not have its content, {'12' * 20}"):
        Repository.find(checkout / "infra").export(hostile, tmp_path / "sides" / "head")


def test_a_stack_has_a_name_that_the_engine_takes(tmp_path: Path) -> None:
    names = ["dev", "a.b_c-9", "x" * 100, "x" * 101, "a b", "\u00e9", "a\nb", os.fsdecode(b"\xff"), "x" * 236]
    for name in names:
        (tmp_path / f"Pulumi.{name}.yaml").write_text("")
    assert set(stack_files(tmp_path)) == {"dev", "a.b_c-9", "x" * 100}
    assert set(misnamed(tmp_path)) == {f"Pulumi.{name}.yaml" for name in names[3:]}


def test_a_link_is_no_stack_file(checkout: Path) -> None:
    assert list(stack_files(checkout / "infra")) == ["dev"]


def test_what_no_commit_has_is_known(checkout: Path) -> None:
    found = Repository.find(checkout / "infra")
    assert not found.is_dirty()
    (checkout / "infra" / "Pulumi.dev.yaml").write_text("other")
    assert found.is_dirty()
    assert found.differs("main", "change")
    assert not found.differs("main", "main")
