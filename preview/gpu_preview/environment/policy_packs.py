"""Selects the policy packs of a preview.

A pack in the repository is taken from the base, so that a pull request cannot change the policies that check it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from gpu_common.visible import visible

from ..errors import PreviewError
from . import virtualenv
from .packages import Packages
from .virtualenv import named_folder, run_without_tool

_FILE = "PulumiPolicy.yaml"
_SETTINGS = "the settings of a policy pack, as a JSON object of its policies by name"
# The engine requires a settings file for each pack or for none. An empty file has no settings.
_NO_SETTINGS = os.devnull


@dataclass(frozen=True)
class Pack:
    """One requested policy pack."""

    folder: Path
    """The path of the pack, in the checkout or elsewhere."""
    root: Path
    """The root of the checkout."""
    base: Path
    """The root of the base's files."""
    settings: Path | None = None
    """The settings file, in the checkout or elsewhere."""

    @property
    def needed(self) -> list[Path]:
        """The paths that an isolated process needs.

        For a pack in the repository, this is only its environment in the checkout. The pack itself is in the files of
        the base, and a link in the checkout could lead anywhere.
        """
        outside = [self.settings] if self.settings and self._inside(self.settings) is None else []
        if (in_repository := self._inside(self.folder)) is not None:
            return [*Packages(self.root, self.root / in_repository).readable(), *outside]
        outside.append(self.folder)
        name = named_folder(self.folder, Path("/"))
        environment = Path(os.path.normpath(self.folder / name))
        if not name or not virtualenv.site_packages(environment):
            return outside
        # The pack's imports from its own checkout, such as the catalog, which the pack of gpu-ci imports.
        outside += map(Path, Packages(Path("/"), self.folder).import_folders(environment, Path("/")))
        python = virtualenv.installation(environment, self.root)
        return [environment, *outside, *([python] if python else [])]

    def at(self) -> Path | None:
        """Return the folder that the pack runs from, or None for a pack of the repository that the base lacks.

        Raises:
            PreviewError: the folder is no policy pack, or its `virtualenv` in the checkout is not that of the base.
        """
        in_repository, base = self._inside(self.folder), self.base
        if in_repository is None or not (base / in_repository / _FILE).is_file():
            if not (self.folder / _FILE).is_file():
                raise PreviewError(f"{self.folder}: is no policy pack\n  expected: a folder with a {_FILE}")
            return self.folder if in_repository is None else None
        in_checkout, in_base = named_folder(self.folder, self.root), named_folder(base / in_repository, base)
        if in_checkout != in_base:
            raise PreviewError(
                f"{in_repository}: the policy pack's `virtualenv` differs between base and checkout\n"
                f"  got: {in_checkout or 'none'}\n  expected: {in_base or 'none'}, as in the base\n"
                "  hint: put a change that removes policies or moves their environment into its own pull request, "
                "without --policy-pack"
            )
        packages = Packages(self.root, self.root / in_repository)
        packages.provide_environment(base)
        # No code of the base has run yet, so it has created no links in the path.
        run_without_tool(base / in_repository, packages.place(base), (_FILE,))
        return base / in_repository

    def settings_at(self) -> Path | None:
        """Return the file with the settings, or None without settings, or for a file that the base lacks."""
        if self.settings is None:
            return None
        in_repository = self._inside(self.settings)
        if in_repository is not None and (self.base / in_repository).is_file():
            return self.base / in_repository
        if not self.settings.is_file():
            raise PreviewError(f"{self.settings}: no such file\n  expected: {_SETTINGS}")
        return self.settings if in_repository is None else None

    def _inside(self, path: Path) -> Path | None:
        """Return a path relative to the repository, or None if it is outside, or in a submodule.

        A path that the base has is in the repository, even if the head has a submodule there.
        """
        found = within(path, self.root)
        if found is None or os.path.lexists(self.base / found):
            return found
        in_submodule = any((self.root / each / ".git").exists() for each in (found, *found.parents[:-1]))
        return None if in_submodule else found


@dataclass(frozen=True)
class PolicySelection:
    """The policy options of a preview."""

    options: tuple[str, ...] = ()
    """The options for `pulumi preview`."""
    left_out: tuple[str, ...] = ()
    """A phrase for each requested pack or settings file that only the head has."""

    def sentence(self, packs_that_ran: str) -> str:
        """Return the sentence for the report: the packs that ran, and the packs that were left out."""
        return "; ".join((packs_that_ran, *self.left_out))


def selected_packs(folders: Sequence[Path], settings: Sequence[Path], root: Path, base: Path) -> list[Pack]:
    """Return the packs, the n-th with the n-th settings file. PreviewError for more settings files than packs.

    `root` is the root of the checkout, and `base` the root of the base's files.
    """
    if len(settings) > len(folders):
        raise PreviewError(
            f"{settings[len(folders)]}: settings without a policy pack\n  got: {len(settings)} of --policy-pack-config"
            f"\n  expected: at most {len(folders)}, one for each --policy-pack, in the same order"
        )
    return [Pack(folder, root, base, file) for folder, file in zip_longest(folders, settings)]


def check_policy_files(packs: Sequence[Pack], kind: Callable[[Path], str], revision: str) -> None:
    """Raise PreviewError if a commit has a submodule at the path of a pack, or files in the environment of a pack.

    The files of a submodule stay in the working tree when another commit is checked out. Files of a commit in an
    environment would run as a part of the policies. `kind` is `Repository.kind` for the commit.
    """
    for pack in packs:
        named = named_folder(pack.folder, pack.root)
        environment = within(pack.folder / named, pack.root) if named else None
        paths = [within(path, pack.root) for path in (pack.folder, pack.settings) if path]
        for place in filter(None, (*paths, environment)):
            if links := [each for each in (place, *place.parents) if each != Path() and kind(each) == "commit"]:
                raise PreviewError(
                    f"{visible(str(place), 200)}: these policies are not files of the repository\n"
                    f"  got: a submodule at {visible(str(links[0]), 200)} in the {revision}\n"
                    "  expected: files of this repository, or of another checkout that is not a submodule"
                )
        if environment and kind(environment):
            raise PreviewError(
                f"{visible(str(environment), 200)}: the policies' environment is a part of the {revision}'s commit\n"
                "  expected: an installed environment that is not committed\n  hint: add it to .gitignore"
            )


def selection(packs: Sequence[Pack]) -> PolicySelection:
    """Return the options, and the packs left out because the base lacks them."""
    options: list[str] = []
    left_out: list[str] = []
    for pack in packs:
        folder, settings = pack.at(), pack.settings_at()
        if folder is None:
            left_out.append(f"not run: the base has no {within(pack.folder, pack.root)}/{_FILE}")
            continue
        if pack.settings and settings is None:
            left_out.append(f"no settings: the base has no {within(pack.settings, pack.root)}")
        options += ["--policy-pack", str(folder), "--policy-pack-config", str(settings or _NO_SETTINGS)]
    return PolicySelection(tuple(options), tuple(left_out))


def within(path: Path, root: Path) -> Path | None:
    """Return a path relative to the root, or None if it is outside.

    Links in the repository are not followed, because they are the head's and can lead anywhere.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve() follows links
    for parent in (absolute, *absolute.parents):
        if parent.resolve() == root:
            return absolute.relative_to(parent)
    return None
