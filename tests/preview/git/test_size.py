"""Tests of the limits on the size of a commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.git import process, tree_export
from gpu_preview.git.repository import Repository

from tests.preview import checkouts
from tests.preview.checkouts import blob, entry, tree


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return checkouts.start(tmp_path / "a repository")


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
    monkeypatch.setattr(tree_export, "_MAX_ENTRIES", 2_000)
    inner = tree(checkout, *(entry("100644", name, blob(checkout, b"")) for name in names))
    assert refusal(checkout, nested(checkout, inner, 10, "0123456789")) == "it has more than 2,000 files and folders"


def test_folders_count_as_files_do(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_export, "_MAX_ENTRIES", 200)
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
    monkeypatch.setattr(process, "_MEMORY_BYTES", 32 * 1024**2)
    assert refusal(checkout, large).startswith("git ls-tree: fatal: Out of memory")


def test_git_is_ended_where_it_takes_too_long(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TIMEOUT_SEC", 0)
    with (
        pytest.raises(PreviewError, match=r"^git cat-file did not end within 0 s$"),
        process.reading(checkout, "cat-file", "--batch-all-objects", "--batch", git_folder=checkout) as listed,
    ):
        listed.read()
