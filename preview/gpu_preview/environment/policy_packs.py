"""The policy packs of a preview. They come from the base, so that no change can exempt itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from gpu_common.visible import visible

from . import venv_clone
from .packages import Packages, PackagesError
from .virtualenv_option import run_without_tool, virtualenv

_FILE = "PulumiPolicy.yaml"
_SETTINGS = "the settings of a policy pack, as a JSON object of its policies by name"
_NO_SETTINGS = (
    os.devnull
)  # The engine requires a settings file for each pack or for none. An empty file has no settings.


class PackError(Exception):
    """A folder is not a policy pack, or the pack cannot run."""


@dataclass(frozen=True)
class Pack:
    """One requested policy pack."""

    folder: Path
    """The path of the pack, in the checkout or elsewhere."""
    root: Path
    """Of the checkout."""
    base: Path
    """The root of the base's files."""
    settings: Path | None = None
    """The settings file, in the checkout or elsewhere."""

    @property
    def needed(self) -> list[Path]:
        """What has to be readable behind the walls.

        Of the repository only the environment: the pack is the base's, and a link of the head's could lead anywhere.
        """
        elsewhere = [self.settings] if self.settings and self._inside(self.settings) is None else []
        if (within := self._inside(self.folder)) is not None:
            return [*Packages(self.root, self.root / within).readable(), *elsewhere]
        elsewhere.append(self.folder)
        name = virtualenv(self.folder, Path("/"))
        environment = Path(os.path.normpath(self.folder / name))
        if not name or not venv_clone.site_packages(environment):
            return elsewhere
        # Its imports from its own checkout, such as our pack's import of the catalog.
        elsewhere += map(Path, Packages(Path("/"), self.folder).imported(environment, Path("/")))
        python = venv_clone.installation(environment, self.root)
        return [environment, *elsewhere, *([python] if python else [])]

    def at(self) -> Path | None:
        """Where it is run from; None for one of the repository that the base has not. PackError where it is none."""
        ours, base = self._inside(self.folder), self.base
        if ours is None or not (base / ours / _FILE).is_file():
            if not (self.folder / _FILE).is_file():
                raise PackError(f"{self.folder}: is no policy pack\n  expected: a folder with a {_FILE}")
            return self.folder if ours is None else None
        here, there = virtualenv(self.folder, self.root), virtualenv(base / ours, base)
        if here != there:
            raise PackError(
                f"{ours}: the policy pack's `virtualenv` differs between base and checkout\n"
                f"  got: {here or 'none'}\n  expected: {there or 'none'}, as in the base\n"
                "  hint: put a change that removes policies or moves their environment into its own pull request, "
                "without --policy-pack"
            )
        packages = Packages(self.root, self.root / ours)
        try:
            packages.lend(base)
        except PackagesError as error:
            raise PackError(str(error)) from None
        # No code of the base has run yet, so it has created no links in the path.
        run_without_tool(base / ours, packages.place(base), (_FILE,))
        return base / ours

    def settings_at(self) -> Path | None:
        """The file of its settings; None where it is one of the repository that the base has not.

        PackError where there is none, and where it is no JSON: the engine would blame the head for it.
        """
        if self.settings is None:
            return None
        ours = self._inside(self.settings)
        if ours is not None and (self.base / ours).is_file():
            _check(self.base / ours, f"{ours} of the base")
            return self.base / ours
        if not self.settings.is_file():
            raise PackError(f"{self.settings}: no such file\n  expected: {_SETTINGS}")
        if ours is not None:
            return None
        _check(self.settings, str(self.settings))
        return self.settings

    def places(self) -> list[Path]:
        """Return the paths of the pack and its settings in the repository, also if they do not exist."""
        given = (self.folder, self.settings)
        return [place for path in given if path and (place := within(path, self.root)) is not None]

    def environment(self) -> Path | None:
        """Return the path of the pack's packages in the checkout, or None if it names none or has them elsewhere."""
        named = virtualenv(self.folder, self.root)
        return within(self.folder / named, self.root) if named else None

    def _inside(self, path: Path) -> Path | None:
        return inside(path, self.root, self.base)


@dataclass(frozen=True)
class PolicySelection:
    """The policy options of a preview."""

    options: tuple[str, ...] = ()
    """Of `pulumi preview`."""
    left_out: tuple[str, ...] = ()
    """The requested packs that only the head has."""

    def sentence(self, asked: str) -> str:
        """Return the sentence that names the packs, and those left out."""
        return "; ".join((asked, *self.left_out))


def chosen(folders: Sequence[Path], settings: Sequence[Path], root: Path, base: Path) -> list[Pack]:
    """The n-th settings belong to the n-th pack. PackError where there are more of them.

    `root` is that of the checkout, `base` that of the base's files.
    """
    if len(settings) > len(folders):
        raise PackError(
            f"{settings[len(folders)]}: settings without a policy pack\n  got: {len(settings)} of --policy-pack-config"
            f"\n  expected: at most {len(folders)}, one for each --policy-pack, in the same order"
        )
    return [Pack(folder, root, base, file) for folder, file in zip_longest(folders, settings)]


def refuse_bent(packs: Sequence[Pack], kind: Callable[[Path], str], whose: str) -> None:
    """PackError where a commit has a submodule in the place of a pack, or holds the packages that a pack runs with.

    A submodule's files stay behind in the working tree when another commit is checked out, and what a commit put into
    an environment runs as a part of the policies. `kind` is that of repository.Repository, for the commit.
    """
    for pack in packs:
        environment = pack.environment()
        for place in filter(None, (*pack.places(), environment)):
            if links := [each for each in folders_of(place) if kind(each) == "commit"]:
                raise PackError(
                    f"{visible(str(place), 200)}: these policies are not files of the repository\n"
                    f"  got: a submodule at {visible(str(links[0]), 200)} in the {whose}\n"
                    "  expected: files of this repository, or of another checkout that is not a submodule"
                )
        if environment and kind(environment):
            raise PackError(
                f"{visible(str(environment), 200)}: the policies' environment is a part of the {whose}'s commit\n"
                "  expected: an installed environment that is not committed\n  hint: add it to .gitignore"
            )


def selection(packs: Sequence[Pack]) -> PolicySelection:
    """Return the options, and the packs left out because the base lacks them."""
    options: list[str] = []
    left_out: list[str] = []
    for pack in packs:
        folder, settings = pack.at(), pack.settings_at()
        if folder is None:
            left_out.append(f"not asked: the base has no {within(pack.folder, pack.root)}/{_FILE}")
            continue
        if pack.settings and settings is None:
            left_out.append(f"no settings: the base has no {within(pack.settings, pack.root)}")
        options += ["--policy-pack", str(folder), "--policy-pack-config", str(settings or _NO_SETTINGS)]
    return PolicySelection(tuple(options), tuple(left_out))


def _check(settings: Path, name: str) -> None:
    try:
        found = json.loads(settings.read_text(encoding="utf-8"), parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise PackError(
            f"{name}, line {error.lineno}: is no JSON\n  got: {error.msg}\n  expected: {_SETTINGS}"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise PackError(f"{name}: cannot be read as JSON\n  expected: {_SETTINGS}") from None
    if not isinstance(found, dict):
        raise PackError(f"{name}: has no settings\n  got: {type(found).__name__}\n  expected: {_SETTINGS}")


def _no_number(name: str) -> None:
    raise ValueError(name)


def inside(path: Path, root: Path, base: Path) -> Path | None:
    """Where a path is in the repository; None where it is not, or in another repository's checkout below it.

    What the base has is the repository's own, whatever a submodule of the head left in its place.
    """
    found = within(path, root)
    if found is None or os.path.lexists(base / found):
        return found
    return None if any((root / each / ".git").exists() for each in folders_of(found)) else found


def within(path: Path, root: Path) -> Path | None:
    """Where a path is below the root; None where it is not.

    Links in the repository are not followed: they are the head's, and could lead to anything.
    """
    given = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve() follows links
    for above in (given, *given.parents):
        if above.resolve() == root:
            return given.relative_to(above)
    return None


def folders_of(place: Path) -> Iterator[Path]:
    yield from (each for each in (place, *place.parents) if each != Path())
