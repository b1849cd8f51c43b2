"""The worlds of bases that are kept between calls."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from gpu_preview.worlds import Kept


def world(folder: Path) -> Path:
    (folder / "backend").mkdir(parents=True)
    (folder / "backend" / "state.json").write_text("{}")
    (folder / "ports.json").write_text("1")
    (folder / "logs").mkdir()
    return folder


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_what_was_kept_is_lent_without_what_was_one_calls_own(tmp_path: Path) -> None:
    kept = Kept.of(tmp_path / "cache", "tree", ["dev"])
    assert not kept.lend(tmp_path / "new")
    kept.keep(world(tmp_path / "world"))
    assert kept.lend(tmp_path / "new")
    assert everything(tmp_path / "new") == ["backend", "backend/state.json"]


def test_a_link_is_neither_kept_nor_lent(tmp_path: Path) -> None:
    """It would carry what it leads to into a folder that the next pull request reads."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("hunter2")
    made = world(tmp_path / "world")
    (made / "leak").symlink_to(tmp_path / "secrets")
    (made / "backend" / "key").symlink_to(tmp_path / "secrets" / "key")
    kept = Kept.of(tmp_path / "cache", "tree", ["dev"])
    kept.keep(made)
    assert kept.folder is not None
    assert everything(kept.folder) == ["backend", "backend/state.json"]
    (kept.folder / "leak").symlink_to(tmp_path / "secrets")
    assert kept.lend(tmp_path / "new")
    assert everything(tmp_path / "new") == ["backend", "backend/state.json"]


def test_nothing_is_written_into_what_is_there_already(tmp_path: Path) -> None:
    kept = Kept.of(tmp_path / "cache", "tree", ["dev"])
    kept.keep(world(tmp_path / "world"))
    (tmp_path / "new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        kept.lend(tmp_path / "new")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(FileExistsError):
        kept.lend(tmp_path / "new")
    assert everything(tmp_path / "elsewhere") == []


def test_each_base_stacks_and_versions_have_a_world_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(tree: str = "tree", *stacks: str) -> Path | None:
        return Kept.of(tmp_path, tree, stacks or ["dev"]).folder

    found = {place(), place("other"), place("tree", "prod"), place("tree", "dev", "prod")}
    real = metadata.version
    for package in ("gpu-ci", "pulumi"):
        monkeypatch.setattr(metadata, "version", lambda name, other=package: "9" if name == other else real(name))
        found.add(place())
    assert len(found) == 6
    assert place("tree", "dev") == place()


def test_without_a_cache_nothing_is_kept(tmp_path: Path) -> None:
    kept = Kept.of(None, "tree", ["dev"])
    kept.keep(world(tmp_path / "world"))
    assert not kept.lend(tmp_path / "new")
    assert everything(tmp_path) == ["world", *(f"world/{one}" for one in everything(tmp_path / "world"))]
