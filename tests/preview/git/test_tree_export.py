"""Tests of the export of a commit from git's objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git import repository
from gpu_preview.git.repository import Repository

from tests.preview import checkouts
from tests.preview.checkouts import blob, entry, tree
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
