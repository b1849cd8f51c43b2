"""Copies the emulated cloud state of the deployed base.

A `CacheEntry` keeps a copy between two calls of `gpu-ci preview`. A `Snapshot` is the copy of one call. It is restored
before the preview of each stack.
"""

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

from ..errors import PreviewError
from ..isolation import temporary

# Files of a single call: the ports of its services, their pending operations, and logs.
_NOT_COPIED = ("ports.json", "operations", "logs")
_WORLD, _DIGESTS = "world", "digests.json"
# Folders in which one stack can leave files that the engine and its providers read for the next stack:
# PULUMI_SANDBOX_DIR, HOME and TMPDIR of every command.
_SHARED = (_WORLD, "home", "tmp")


@dataclass(frozen=True)
class CacheEntry:
    """The cache entry for one base. A further push to the same pull request has the same base."""

    folder: Path | None
    """The folder of the entry; None disables the cache."""

    @classmethod
    def of(cls, cache: Path | None, tree: str, stacks: Sequence[str], root: Path, engine: str) -> CacheEntry:
        """Return the entry for a git tree, its stacks, and the versions of gpu-ci, Pulumi and `engine`.

        Raises:
            PreviewError: the cache is in the checkout at `root`, where a commit can put any file.
        """
        if cache is None:
            return cls(None)
        absolute = Path(os.path.abspath(cache))  # noqa: PTH100 - Path.resolve() follows symbolic links; checked below
        if root in (absolute, *absolute.parents) or Path(os.path.realpath(absolute)).is_relative_to(root):
            raise PreviewError(
                f"--cache {cache}: is in the checkout, where a commit can put any file\n"
                f"  expected: a folder outside of {root}"
            )
        inputs = "\0".join([metadata.version("gpu-ci"), metadata.version("pulumi"), engine, *stacks])
        return cls(absolute / f"{tree}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}")

    def restore_into(self, world: Path, say: Callable[[str], None]) -> bool:
        """Copy the entry to `world`. Return False if there is no entry. A damaged entry is removed.

        Raises:
            FileExistsError: `world` exists.
            PreviewError: the entry is not a folder.
        """
        if os.path.lexists(world):
            raise FileExistsError(world)
        if self.folder is None or not os.path.lexists(self.folder):
            return False
        if self.folder.is_symlink() or not self.folder.is_dir():
            raise PreviewError(f"{self.folder}: is not a folder of the cache\n  hint: remove it")
        try:
            copy(self.folder / _WORLD, world)
            if _digests(world) == json.loads((self.folder / _DIGESTS).read_text(encoding="utf-8")):
                return True
        except (OSError, ValueError, RecursionError):
            pass  # damaged, like an entry with other digests
        say("the cache is damaged, so the base is deployed again")
        for each in (world, self.folder):
            temporary.remove(each)
        return False

    def save(self, world: Path, say: Callable[[str], None]) -> None:
        """Save a copy atomically. A failure is only a progress message: the preview also works without a cache."""
        if self.folder is None or os.path.lexists(self.folder) or not world.is_dir():
            return
        draft = self.folder.with_name(f".{secrets.token_hex(16)}")
        try:
            draft.mkdir(parents=True)
            copy(world, draft / _WORLD)
            (draft / _DIGESTS).write_text(json.dumps(_digests(draft / _WORLD)), encoding="utf-8")
            draft.rename(self.folder)
        except OSError as error:
            if not self.folder.is_dir():  # otherwise another process saved it first
                say(f"the base cannot be saved in the cache: {error.strerror or 'some files cannot be copied'}")
            shutil.rmtree(draft, ignore_errors=True)


@dataclass(frozen=True)
class Snapshot:
    """A copy of the deployed base that code of the head cannot change."""

    scratch: Path
    """The folder that both revisions write to."""
    folder: Path
    """The folder of the copy, which only this program writes to."""

    @classmethod
    def of(cls, scratch: Path, folder: Path) -> Snapshot:
        """Copy the state of the base now.

        Raises:
            PreviewError: the copy fails.
        """
        folder.mkdir()
        try:
            for name in _SHARED:
                if (scratch / name).is_dir():
                    copy(scratch / name, folder / name)
        except OSError as error:
            raise PreviewError(f"the state of the deployed base cannot be saved: {error.strerror or error}") from None
        return cls(scratch, folder)

    def restore(self) -> None:
        """Replace the current state by the copy.

        Raises:
            PreviewError: the current state cannot be removed.
        """
        try:
            self.scratch.chmod(0o700)
            for name in _SHARED:
                _clear(self.scratch / name)
                if (self.folder / name).is_dir():
                    copy(self.folder / name, self.scratch / name)
        except OSError as error:
            raise PreviewError(
                f"the state of the deployed base cannot be restored: {error.strerror or error}"
            ) from None


def _clear(place: Path) -> None:
    if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
        place.unlink()
    elif place.is_dir():
        place.chmod(0o700)
        temporary.remove(place)


def copy(source: Path, target: Path) -> None:
    """Copy the folders and regular files of a state. Symbolic links and pipes are untrusted and left out.

    Raises:
        FileExistsError: the target exists.
    """

    def ignored_names(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _NOT_COPIED or not _is_plain(Path(folder) / name)}

    shutil.copytree(source, target, symlinks=True, ignore=ignored_names)


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or path.is_dir())


def _digests(world: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, by path. This takes 0.5 s for a stack of 100 pools (250 MB)."""
    digests = {}
    for path in sorted(each for each in world.rglob("*") if each.is_file()):
        with path.open("rb") as file:
            digests[str(path.relative_to(world))] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
