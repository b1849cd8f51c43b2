"""The policy packs a change is held to: those of the base, so that no change exempts itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .packages import Packages, PackagesError
from .sides import Side

_FILE = "PulumiPolicy.yaml"


class PackError(Exception):
    """A folder that is no policy pack, or one that cannot run."""


@dataclass(frozen=True)
class Pack:
    """One pack, as somebody asked for it."""

    folder: Path
    """In the checkout, or anywhere else."""
    root: Path
    """Of the checkout."""

    @property
    def needed(self) -> list[Path]:
        """What has to be readable behind the walls."""
        environment = Packages(self.root, self.folder).folder
        return [self.folder, *([self.folder / environment] if environment else [])]

    def at(self, base: Side, head: Side) -> Path:
        """Where it is run from. PackError where it is none."""
        if not (self.folder / _FILE).is_file():
            raise PackError(f"{self.folder}: is no policy pack\n  expected: a folder with a {_FILE}")
        if not self.folder.is_relative_to(self.root):
            return self.folder
        inside = self.folder.relative_to(self.root)
        side = base if (base.root / inside / _FILE).is_file() else head
        try:
            Packages(self.root, self.folder).lend(side.root)
        except PackagesError as error:
            raise PackError(str(error)) from None
        return side.root / inside


def config(file: Path, root: Path, base: Side, head: Side) -> Path:
    """The settings of a pack: the base's where they are in the repository."""
    if not file.is_relative_to(root):
        return file
    inside = file.relative_to(root)
    return next((side.root / inside for side in (base, head) if (side.root / inside).is_file()), file)


def words(packs: Sequence[Path], configs: Sequence[Path]) -> list[str]:
    """The options of `pulumi preview`; the n-th settings belong to the n-th pack."""
    asked = [word for pack in packs for word in ("--policy-pack", str(pack))]
    return asked + [word for file in configs for word in ("--policy-pack-config", str(file))]
