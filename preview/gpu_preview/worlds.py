"""Keeps the world of a base between calls: a pull request that is pushed to again has the same one."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

# What is one call's own: the port its services listen on, and what they still had to do.
_LEFT_OUT = ("ports.json", "operations", "logs")


@dataclass(frozen=True)
class Kept:
    """Where the world of one base is, or would be."""

    folder: Path | None
    """None: nothing is kept."""

    @classmethod
    def of(cls, cache: Path | None, tree: str, stacks: Sequence[str]) -> Kept:
        """The place for these stacks of these files, as this version of the program brings them up."""
        if cache is None:
            return cls(None)
        said = "\0".join([metadata.version("gpu-ci"), metadata.version("pulumi"), *stacks])
        return cls(cache / f"{tree}-{hashlib.sha256(said.encode()).hexdigest()[:12]}")

    def lend(self, world: Path) -> bool:
        """Put a copy of it there, where there is one; whether there was. FileExistsError where something is already."""
        if self.folder is None or not self.folder.is_dir():
            return False
        copy(self.folder, world)
        return True

    def keep(self, world: Path) -> None:
        """Keep a copy; half of one is never seen."""
        if self.folder is None or self.folder.is_dir() or not world.is_dir():
            return
        draft = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        copy(world, draft)
        try:
            draft.rename(self.folder)
        except OSError:  # somebody else was first
            shutil.rmtree(draft, ignore_errors=True)


def copy(source: Path, target: Path) -> None:
    """Copy a world without its links, which may lead anywhere. FileExistsError where the target is there."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _LEFT_OUT or (Path(folder) / name).is_symlink()}

    shutil.copytree(source, target, symlinks=True, ignore=left_out)
