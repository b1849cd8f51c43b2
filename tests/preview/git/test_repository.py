"""Tests of the checkout around a folder, its commits, and the stacks of its project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git import repository
from gpu_preview.git.repository import Repository, stack_files, tracks

from tests.preview import small
from tests.preview.repository import git
from tests.preview.small import blob, entry, tree


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return small.start(tmp_path / "a repository")


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
    other = small.start(tmp_path / "other")
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


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["..", "file"], "'..': is no path that git would check out"),
        ([".git", "hooks"], "'.git': is no path that git would check out"),
        ([".GIT", "hooks"], "'.GIT': is no path that git would check out"),
        ([".", "file"], "'.': is no path that git would check out"),
        (["infra", ".git"], "'infra/.git': is no path that git would check out"),
        (["infra", ".Git"], "'infra/.Git': is no path that git would check out"),
        (["infra", "../../x"], "'infra/../../x': is no path that git would check out"),
        (["infra", "/x"], "'infra//x': is no path that git would check out"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(checkout: Path, tmp_path: Path, names: list[str], problem: str) -> None:
    blob = git(checkout, "rev-parse", "main:infra/Pulumi.yaml")
    hostile = tree(checkout, entry("40000", names[0], tree(checkout, entry("100644", names[1], blob))))
    with pytest.raises(PreviewError) as refused:
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
    with pytest.raises(PreviewError, match=r"'a': cannot be written: File exists"):
        Repository.find(checkout / "infra").export(hostile, tmp_path / "sides" / "head")
    twice = tree(checkout, entry("100644", "a", blob), entry("100755", "a", blob))
    with pytest.raises(PreviewError, match=r"'a': cannot be written: File exists"):
        Repository.find(checkout / "infra").export(twice, tmp_path / "sides" / "base")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_missing_git_object_is_an_error(checkout: Path, tmp_path: Path) -> None:
    hostile = tree(checkout, entry("100644", "a", "12" * 20))
    with pytest.raises(PreviewError, match=f"'a': git does not have its content, {'12' * 20}"):
        Repository.find(checkout / "infra").export(hostile, tmp_path / "sides" / "head")


def refusal(checkout: Path, commit: str, max_gib: float = 10.0) -> str:
    """Return the reason why a commit is not exported. No file is written before."""
    folder = checkout.parent / "sides" / "head"
    with pytest.raises(PreviewError) as refused:
        Repository.find(checkout / "infra").export(commit, folder, max_gib)
    assert list(folder.parent.rglob("*")) == [folder]
    return str(refused.value).removeprefix(f"{commit[:10]}: ")


def nested(checkout: Path, inner: str, depth: int, names: str = "d") -> str:
    """Create a tree with this many levels, each with the same few folders."""
    for _ in range(depth):
        inner = tree(checkout, *(entry("40000", name, inner) for name in names))
    return inner


@pytest.mark.parametrize("names", [["f"], []])
def test_a_dozen_trees_that_stand_for_any_number_of_folders_are_refused_at_once(
    checkout: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tree has a file in each folder, and the other has no files."""
    monkeypatch.setattr(repository, "_MAX_ENTRIES", 2_000)
    inner = tree(checkout, *(entry("100644", name, blob(checkout, b"")) for name in names))
    assert refusal(checkout, nested(checkout, inner, 4, "0123456789")) == "it has more than 2,000 files and folders"


def test_folders_count_as_files_do(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "_MAX_ENTRIES", 200)
    empty = blob(checkout, b"")
    some = tree(checkout, *(entry("100644", f"{each}", empty) for each in range(9)))
    folders = [entry("40000", f"{each:02}", some) for each in range(20)]
    Repository.find(checkout / "infra").export(tree(checkout, *folders), tmp_path / "fits")
    assert len([*(tmp_path / "fits").rglob("*")]) == 200
    more = tree(checkout, *folders, entry("100644", "z", empty))
    assert refusal(checkout, more) == "it has more than 200 files and folders"


def test_files_are_counted_as_often_as_they_are_written(checkout: Path, tmp_path: Path) -> None:
    mebibyte = blob(checkout, bytes(1024**2))
    commit = tree(checkout, *(entry("100644", f"z{each}", mebibyte) for each in range(4)))
    assert refusal(checkout, commit, max_gib=3.999 / 1024) == "its files have more than 0.00390527 GiB"
    Repository.find(checkout / "infra").export(commit, tmp_path / "fits", 4 / 1024)
    assert (tmp_path / "fits" / "z3").stat().st_size == 1024**2


def test_a_link_leads_no_further_than_a_path_can(checkout: Path) -> None:
    link = blob(checkout, b"x" * 4_096)
    error = refusal(checkout, tree(checkout, entry("120000", "link", link)))
    assert error == "'link': is a link to a path of more than 4,095 bytes"


def test_folders_in_folders_have_an_end(checkout: Path, tmp_path: Path) -> None:
    file = tree(checkout, entry("100644", "f", blob(checkout, b"")))
    Repository.find(checkout / "infra").export(nested(checkout, file, 199), tmp_path / "fits")
    assert (tmp_path / "fits").joinpath(*"d" * 199, "f").exists()
    assert refusal(checkout, nested(checkout, file, 200)) == f"'{'d/' * 50}'...: has more than 200 parts"


def test_a_path_has_an_end(checkout: Path) -> None:
    file = blob(checkout, b"")
    error = refusal(checkout, tree(checkout, entry("100644", "x" * 5_000, file)))
    assert error == f"'{'x' * 100}'...: is a path of more than 4,095 bytes"


def test_git_takes_no_more_memory_than_it_may(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git needs memory for a whole folder, and for a file that is stored as a delta."""
    large = tree(checkout, entry("100644", "x" * 50 * 1024**2, blob(checkout, b"")))
    monkeypatch.setattr(repository, "_MEMORY_BYTES", 32 * 1024**2)
    assert refusal(checkout, large).startswith("git ls-tree: fatal: Out of memory")


def test_git_is_ended_where_it_takes_too_long(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "_TIMEOUT_SEC", 0)
    with pytest.raises(PreviewError, match=r"^git cat-file did not end within 0 s$"):
        repository.run(checkout, "cat-file", "--batch-all-objects", "--batch")


def test_git_lists_no_more_than_it_may(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "_MAX_LIST_BYTES", 1024**2)
    inner = tree(checkout, entry("100644", "f", blob(checkout, b"")))
    error = refusal(checkout, nested(checkout, inner, 5, "0123456789"))
    assert error == "git ls-tree: it has more than 1 MiB of output"
