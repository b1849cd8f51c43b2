"""Tests of the cache of deployed bases."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from gpu_preview.compare.base_cache import CacheEntry, Snapshot
from gpu_preview.errors import PreviewError


def world(folder: Path) -> Path:
    (folder / "backend").mkdir(parents=True)
    (folder / "backend" / "state.json").write_text("{}")
    (folder / "ports.json").write_text("1")
    (folder / "logs").mkdir()
    return folder


def cached(tmp_path: Path) -> CacheEntry:
    return CacheEntry.of(tmp_path / "cache", "tree", ["dev"], tmp_path / "checkout", "3.259.0")


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_link_is_neither_cached_nor_restored(tmp_path: Path) -> None:
    """A copied link would put its target into a folder that the next pull request reads."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("hunter2")
    made = world(tmp_path / "world")
    (made / "leak").symlink_to(tmp_path / "secrets")
    (made / "backend" / "key").symlink_to(tmp_path / "secrets" / "key")
    kept = cached(tmp_path)
    kept.save(made, print)
    assert kept.folder is not None
    assert everything(kept.folder / "world") == ["backend", "backend/state.json"]
    (kept.folder / "world" / "leak").symlink_to(tmp_path / "secrets")
    assert kept.restore_into(tmp_path / "new", print)
    assert everything(tmp_path / "new") == ["backend", "backend/state.json"]


def test_nothing_is_written_into_what_is_there_already(tmp_path: Path) -> None:
    kept = cached(tmp_path)
    kept.save(world(tmp_path / "world"), print)
    (tmp_path / "new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        kept.restore_into(tmp_path / "new", print)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(FileExistsError):
        kept.restore_into(tmp_path / "new", print)
    assert everything(tmp_path / "elsewhere") == []


def test_each_base_stacks_and_versions_have_a_world_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(tree: str = "tree", *stacks: str, engine: str = "3.259.0") -> Path | None:
        return CacheEntry.of(tmp_path, tree, stacks or ["dev"], tmp_path / "checkout", engine).folder

    found = {place(), place("other"), place("tree", "prod"), place("tree", "dev", "prod")}
    real = metadata.version
    for package in ("gpu-ci", "pulumi"):
        monkeypatch.setattr(metadata, "version", lambda name, other=package: "9" if name == other else real(name))
        found.add(place())
    monkeypatch.setattr(metadata, "version", real)
    found.add(place(engine="3.260.0"))
    assert len(found) == 7
    assert place("tree", "dev") == place()


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: (kept / "world" / "backend" / "state.json").write_text("{"),
        lambda kept: (kept / "world" / "backend" / "state.json").unlink(),
        lambda kept: (kept / "world" / "more").write_text(""),
        lambda kept: (kept / "digests.json").unlink(),
        lambda kept: (kept / "digests.json").write_text("[" * 100_000),
        lambda kept: (kept / "world").rename(kept / "gone"),
    ],
)
def test_a_damaged_cache_entry_is_removed_and_reported(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    kept, messages = cached(tmp_path), list[str]()
    made = world(tmp_path / "world")
    kept.save(made, print)
    assert kept.folder is not None
    damage(kept.folder)
    assert not kept.restore_into(tmp_path / "new", messages.append)
    assert messages == ["the cache is damaged, so the base is deployed again"]
    assert not (tmp_path / "new").exists()
    kept.save(made, print)
    assert kept.restore_into(tmp_path / "new", print)


def test_a_link_at_the_path_of_a_cache_entry_is_refused(tmp_path: Path) -> None:
    kept = cached(tmp_path)
    kept.save(world(tmp_path / "world"), print)
    assert kept.folder is not None
    kept.folder.rename(tmp_path / "elsewhere")
    kept.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PreviewError, match=r"is not a folder of the cache\n  hint: remove it$"):
        kept.restore_into(tmp_path / "new", print)


@pytest.mark.parametrize("cache", ["checkout", "checkout/.cache", "checkout/a link", "checkout/../checkout/b", "in"])
def test_a_cache_in_the_checkout_is_refused_even_behind_a_link(tmp_path: Path, cache: str) -> None:
    root = (tmp_path / "checkout").resolve()
    root.mkdir()
    (root / "a link").symlink_to(tmp_path)
    (tmp_path / "in").symlink_to(root)
    with pytest.raises(PreviewError, match=r"^--cache .*: is in the checkout, .*\n  expected: a folder outside of "):
        CacheEntry.of(tmp_path / cache, "tree", ["dev"], root, "3.259.0")


def saved(tmp_path: Path) -> Snapshot:
    scratch = tmp_path / "work"
    world(scratch / "world")
    (scratch / "home").mkdir()
    (scratch / "home" / "settings").write_text("the base's")
    return Snapshot.of(scratch, tmp_path / "own")


def test_the_state_of_the_base_is_restored_over_any_files(tmp_path: Path) -> None:
    kept = saved(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    for _ in range(2):
        (kept.scratch / "world" / "backend" / "state.json").write_text("the head's")
        (kept.scratch / "home" / "settings").unlink()
        (kept.scratch / "home").rmdir()
        (kept.scratch / "home").symlink_to(outside)
        os.mkfifo(kept.scratch / "tmp")
        kept.restore()
        assert everything(kept.scratch) == [
            "home",
            "home/settings",
            "world",
            "world/backend",
            "world/backend/state.json",
        ]
        assert (kept.scratch / "world" / "backend" / "state.json").read_text() == "{}"
        assert (kept.scratch / "home" / "settings").read_text() == "the base's"
    assert (outside / "precious").read_text() == "kept"


def test_a_pipe_of_the_base_is_not_waited_for(tmp_path: Path) -> None:
    made = world(tmp_path / "work" / "world")
    os.mkfifo(made / "backend" / "pipe")
    Snapshot.of(tmp_path / "work", tmp_path / "own")
    assert everything(tmp_path / "own") == ["world", "world/backend", "world/backend/state.json"]
