"""Tests of the export of a commit from git's objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository

from tests.preview import checkouts
from tests.preview.checkouts import entry, tree
from tests.preview.repository import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return checkouts.start(tmp_path / "a repository")


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
