"""The policy packs a change is held to: those of the base, so that no change exempts itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from . import environments
from .packages import Packages, PackagesError, virtualenv

_FILE = "PulumiPolicy.yaml"
_NO_SETTINGS = os.devnull  # the engine takes a file for each pack or none at all, and an empty one is no settings


class PackError(Exception):
    """A folder that is no policy pack, or one that cannot run."""


@dataclass(frozen=True)
class Pack:
    """One pack, as somebody asked for it."""

    folder: Path
    """In the checkout, or anywhere else."""
    root: Path
    """Of the checkout."""
    settings: Path | None = None
    """A file, in the checkout or anywhere else."""

    @property
    def needed(self) -> list[Path]:
        """What has to be readable behind the walls.

        Of the repository only the environment: the pack is the base's, and a link of the head's could lead anywhere.
        """
        elsewhere = [self.settings] if self.settings and inside(self.settings, self.root) is None else []
        ours = inside(self.folder, self.root) is not None
        name = virtualenv(self.folder, self.root if ours else Path("/"))
        environment = Path(os.path.normpath(self.folder / name))
        if not ours:
            elsewhere.append(self.folder)
        if not name or not environments.site_packages(environment) or (ours and environment.resolve() != environment):
            return elsewhere
        if not ours:  # what it imports from its own checkout, as ours does the catalog
            elsewhere += map(Path, Packages(Path("/"), self.folder).imported(environment, Path("/")))
        python = environments.installation(environment)
        return [environment, *elsewhere, *([python] if python else [])]

    def at(self, base: Path) -> Path | None:
        """Where it is run from; None for one of the repository that the base has not. PackError where it is none.

        `base` is the root of the base's files.
        """
        within = inside(self.folder, self.root)
        if within is None or not (base / within / _FILE).is_file():
            if not (self.folder / _FILE).is_file():
                raise PackError(f"{self.folder}: is no policy pack\n  expected: a folder with a {_FILE}")
            return self.folder if within is None else None
        here, there = virtualenv(self.folder, self.root), virtualenv(base / within, base)
        if here != there:
            raise PackError(
                f"{within}: the base's policies have another environment than this checkout's\n"
                f"  got: {here or 'none'}\n  expected: {there or 'none'}, as in the base\n"
                "  hint: a change that removes policies, or moves their environment, is merged without asking them"
            )
        try:
            Packages(self.root, self.root / within).lend(base)
        except PackagesError as error:
            raise PackError(str(error)) from None
        return base / within

    def settings_at(self, base: Path) -> Path | None:
        """The file of its settings; None where it is one of the repository that the base has not."""
        if self.settings is None:
            return None
        within = inside(self.settings, self.root)
        if within is not None and (base / within).is_file():
            return base / within
        if not self.settings.is_file():
            raise PackError(f"{self.settings}: no such file\n  expected: the settings of a policy pack, as JSON")
        return self.settings if within is None else None


@dataclass(frozen=True)
class HeldTo:
    """What a preview is asked with."""

    options: tuple[str, ...] = ()
    """Of `pulumi preview`."""
    left_out: tuple[str, ...] = ()
    """What was asked for, and is only the head's."""

    def told(self, asked: str) -> str:
        """The sentence on the packs that were asked, with what was left out."""
        return "; ".join((asked, *self.left_out))


def chosen(folders: Sequence[Path], settings: Sequence[Path], root: Path) -> list[Pack]:
    """The n-th settings belong to the n-th pack. PackError where there are more of them."""
    if len(settings) > len(folders):
        raise PackError(
            f"{settings[len(folders)]}: settings without a policy pack\n  got: {len(settings)} of --policy-pack-config"
            f"\n  expected: at most {len(folders)}, one for each --policy-pack, in the same order"
        )
    return [Pack(folder, root, file) for folder, file in zip_longest(folders, settings)]


def held_to(packs: Sequence[Pack], base: Path) -> HeldTo:
    """The options, and what is left out because the base has it not."""
    options: list[str] = []
    left_out: list[str] = []
    for pack in packs:
        folder, settings = pack.at(base), pack.settings_at(base)
        if folder is None:
            left_out.append(f"not asked: the base has no {inside(pack.folder, pack.root)}/{_FILE}")
            continue
        if pack.settings and settings is None:
            left_out.append(f"no settings: the base has no {inside(pack.settings, pack.root)}")
        options += ["--policy-pack", str(folder), "--policy-pack-config", str(settings or _NO_SETTINGS)]
    return HeldTo(tuple(options), tuple(left_out))


def inside(path: Path, root: Path) -> Path | None:
    """Where a path is in the repository; None where it is not, or in another repository's checkout below it.

    Links in the repository are not followed: they are the head's, and could lead to anything.
    """
    given = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve() follows links
    for above in (given, *given.parents):
        if above.resolve() == root:
            within = given.relative_to(above)
            return None if any((root / one / ".git").exists() for one in _folders(within)) else within
    return None


def _folders(within: Path) -> Iterator[Path]:
    yield from (each for each in (within, *within.parents) if each != Path())
