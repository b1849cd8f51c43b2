"""Tests that a temporary folder is removed with all its files, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from gpu_preview.isolation import files


def nested(top: Path, depth: int) -> None:
    """Create nested folders whose path is longer than the system allows."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a-rather-long-name", dir_fd=at)
        inner = os.open("a-rather-long-name", os.O_RDONLY, dir_fd=at)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.close(at)
        at = inner
    os.close(at)


def test_folders_in_folders_without_an_end_are_removed(tmp_path: Path) -> None:
    with files.temporary_folder("it-") as folder:
        nested(folder, 1_500)
    assert not folder.exists()


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with files.temporary_folder("it-") as folder:
        (folder / "link").symlink_to(tmp_path / "mine")
        (folder / "inner").mkdir()
        (folder / "inner" / "link").symlink_to(tmp_path / "mine" / "file")
        os.mkfifo(folder / "pipe")
    assert not folder.exists()
    assert (tmp_path / "mine" / "file").read_text() == "kept"


def test_a_folder_without_write_permission_is_removed(tmp_path: Path) -> None:
    with files.temporary_folder("it-") as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_text("")
        (folder / "a" / "b").chmod(0)
        (folder / "a").chmod(0)
        folder.chmod(0)
    assert not folder.exists()


def test_the_target_of_a_link_at_the_path_of_the_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with files.temporary_folder("it-") as folder:
        folder.rmdir()
        folder.symlink_to(tmp_path / "mine")
    assert (tmp_path / "mine" / "file").read_text() == "kept"
    folder.unlink()


def test_the_time_limit_also_applies_within_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in range(100):
        (tmp_path / f"{name}").write_text("")
    seconds = iter(range(1_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    files.remove(tmp_path, timeout_sec=10)
    assert len([*tmp_path.iterdir()]) == 92
