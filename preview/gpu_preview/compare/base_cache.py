"""Copies of the world that a base came to: one between calls, and one to put back before each stack of the head."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..isolation import temporary

# What is one call's own: the port its services listen on, and what they still had to do.
_LEFT_OUT = ("ports.json", "operations", "logs")
_WORLD, _DIGESTS = "world", "digests.json"
# Where the engine, its providers and what they start read what another stack may have written: PULUMI_SANDBOX_DIR, HOME
# and TMPDIR of every command.
_SHARED = (_WORLD, "home", "tmp")


class CacheError(Exception):
    """A world cannot be lent or put back; the text says why."""


@dataclass(frozen=True)
class CacheEntry:
    """Where the world of one base is, or would be: a pull request that is pushed to again has the same one."""

    folder: Path | None
    """None: nothing is kept."""

    @classmethod
    def of(cls, cache: Path | None, tree: str, stacks: Sequence[str], root: Path, engine: str) -> CacheEntry:
        """The place for these stacks of these files, as this version of the program and of the `engine` deploys them.

        CacheError for a cache in the checkout, whose root is `root`: a commit may have put anything there.
        """
        if cache is None:
            return cls(None)
        whole = Path(os.path.abspath(cache))  # noqa: PTH100 - Path.resolve() follows links, which is asked apart
        if root in (whole, *whole.parents) or Path(os.path.realpath(whole)).is_relative_to(root):
            raise CacheError(
                f"--cache {cache}: is in the checkout, where a commit may have put anything\n"
                f"  expected: a folder outside of {root}"
            )
        inputs = "\0".join([metadata.version("gpu-ci"), metadata.version("pulumi"), engine, *stacks])
        return cls(whole / f"{tree}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}")

    def restore_into(self, world: Path, say: Callable[[str], None]) -> bool:
        """Put a copy of it there, where there is one; whether there was. A damaged one is removed.

        FileExistsError where something is already, CacheError where a link is in its place.
        """
        if os.path.lexists(world):
            raise FileExistsError(world)
        if self.folder is None or not os.path.lexists(self.folder):
            return False
        if self.folder.is_symlink() or not self.folder.is_dir():
            raise CacheError(f"{self.folder}: is no folder of the cache's\n  hint: remove it")
        try:
            copy(self.folder / _WORLD, world)
            if _digests(world) == json.loads((self.folder / _DIGESTS).read_text(encoding="utf-8")):
                return True
        except (OSError, ValueError, RecursionError):
            pass  # as good as another content
        say("the cache is damaged, so the base is brought up anew")
        for each in (world, self.folder):
            temporary.remove(each)
        return False

    def keep(self, world: Path, say: Callable[[str], None]) -> None:
        """Keep a copy; half of one is never seen. Where that cannot be, it is only said: the report counts for more."""
        if self.folder is None or os.path.lexists(self.folder) or not world.is_dir():
            return
        draft = self.folder.with_name(f".{secrets.token_hex(16)}")
        try:
            draft.mkdir(parents=True)
            copy(world, draft / _WORLD)
            (draft / _DIGESTS).write_text(json.dumps(_digests(draft / _WORLD)), encoding="utf-8")
            draft.rename(self.folder)
        except OSError as error:
            if not self.folder.is_dir():  # else somebody else was first
                say(f"the base cannot be kept in the cache: {error.strerror or 'some of its files cannot be copied'}")
            shutil.rmtree(draft, ignore_errors=True)


@dataclass(frozen=True)
class Snapshot:
    """What the base came to, where nothing of the head can change it."""

    scratch: Path
    """Where both sides write."""
    folder: Path
    """Where only this program does."""

    @classmethod
    def of(cls, scratch: Path, folder: Path) -> Snapshot:
        """Save it now. CacheError where that cannot be."""
        folder.mkdir()
        try:
            for name in _SHARED:
                if (scratch / name).is_dir():
                    copy(scratch / name, folder / name)
        except OSError as error:
            raise CacheError(f"what the base came to cannot be saved: {error.strerror or error}") from None
        return cls(scratch, folder)

    def restore(self) -> None:
        """As it was saved, whatever stands there now. CacheError where that cannot be removed."""
        try:
            self.scratch.chmod(0o700)
            for name in _SHARED:
                _clear(self.scratch / name)
                if (self.folder / name).is_dir():
                    copy(self.folder / name, self.scratch / name)
        except OSError as error:
            raise CacheError(f"what the base came to cannot be put back: {error.strerror or error}") from None


def _clear(place: Path) -> None:
    if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
        place.unlink()
    elif place.is_dir():
        place.chmod(0o700)
        temporary.remove(place)


def copy(source: Path, target: Path) -> None:
    """Copy a world's folders and plain files: a link may lead anywhere, and a pipe never ends.

    FileExistsError where the target is there.
    """

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _LEFT_OUT or not _is_plain(Path(folder) / name)}

    shutil.copytree(source, target, symlinks=True, ignore=left_out)


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or path.is_dir())


def _digests(world: Path) -> dict[str, str]:
    """Of each file, by its path; half a second for a stack of 100 pools, whose world has 250 MB."""
    found = {}
    for path in sorted(each for each in world.rglob("*") if each.is_file()):
        with path.open("rb") as file:
            found[str(path.relative_to(world))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
