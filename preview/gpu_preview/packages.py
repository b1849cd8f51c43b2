"""The Python environment of a side: that of the checkout where both want the same packages, else one of its own.

Packages a checkout has installed as editable (its own) are those of the side, not of the checkout: a preview of another
commit with this one's modules would be of neither.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import environments, requirements, stack_nodes
from .environments import LendError, site_packages

_LOCKS = ("requirements*.lock", "requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
_INSTALLED = ("requirements.lock", "requirements.txt")


class PackagesError(Exception):
    """A side has no environment to run in."""


@dataclass(frozen=True)
class Packages:
    """Where a checkout keeps its environment, as its Pulumi.yaml says."""

    root: Path
    project: Path
    """Both of the checkout; a policy pack is a project too."""

    @property
    def folder(self) -> str:
        """The option `virtualenv`, relative to the project; empty where the program runs in no environment."""
        return virtualenv(self.project, self.root)

    def locks(self, root: Path) -> dict[str, bytes]:
        """The files that decide which packages are there, by their path."""
        return {
            str(path.relative_to(root)): path.read_bytes()
            for folder in dict.fromkeys((root, root / self.project.relative_to(self.root)))
            for pattern in _LOCKS
            for path in sorted(folder.glob(pattern))
            if path.is_file() and not path.is_symlink()
        }

    def wants_others(self, side: Path) -> bool:
        """Whether a side asks for other packages than the checkout has."""
        return self.locks(side) != self.locks(self.root)

    def lend(self, side: Path) -> None:
        """Give the side the checkout's packages, with the editable ones as they are there."""
        if not self.folder:
            return
        ours = self.project / self.folder
        if not (ours / "bin" / "python").is_file():
            raise PackagesError(
                f"{ours}: no virtual environment, though Pulumi.yaml names it\n  expected: the program's dependencies\n"
                "  hint: install them first, as for `pulumi preview`"
            )
        try:
            environments.lend(ours, self.place(side), [*self.imported(ours, side), *map(str, site_packages(ours))])
        except LendError as error:
            raise PackagesError(str(error)) from None

    def place(self, side: Path) -> Path:
        """Where a side's environment is, as its own Pulumi.yaml says; the project itself where it names none."""
        project = side / self.project.relative_to(self.root)
        return Path(os.path.normpath(project / virtualenv(project, side)))

    def imported(self, environment: Path, side: Path) -> Iterator[str]:
        """The folders an environment imports from beside its own: those of the checkout as they are in the side."""
        for packages in site_packages(environment):
            for file in sorted(packages.glob("*.pth")):
                for line in file.read_text(errors="replace").splitlines():
                    folder = Path(line.strip())
                    if folder.is_absolute():
                        inside = folder.is_relative_to(self.root) and ".venv" not in folder.parts
                        yield str(side / folder.relative_to(self.root)) if inside else str(folder)

    def installation(self, side: Path, trusted: Path | None = None) -> list[list[str]]:
        """The commands that give a side packages of its own. PackagesError where nothing says which.

        With `trusted`, the root of another side, the side's lock may hold nothing that runs code, and no address that
        the other's has not.
        """
        project = side / self.project.relative_to(self.root)
        places = [path for name in _INSTALLED for path in (project / name, side / name)]
        wanted = next((path for path in places if path.is_file() and not path.is_symlink()), None)
        made = self.place(side)
        if wanted is None or made == project:
            raise PackagesError(
                f"{project.name}: its lock differs from the checkout's, and nothing says how to install it\n"
                f"  expected: one of {', '.join(_INSTALLED)}, and a virtualenv in Pulumi.yaml\n"
                "  hint: name the command with --install"
            )
        if trusted is not None:
            known = trusted / wanted.relative_to(side)
            _refuse(wanted, known.read_text(errors="replace") if known.is_file() else "", side)
        # Wheels only: a source distribution runs code of its own to be installed.
        hashed = ["--require-hashes"] if "--hash=" in wanted.read_text(errors="replace") else []
        words = ["install", "--only-binary", ":all:", *hashed, "-r", str(wanted)]
        if uv := shutil.which("uv"):
            return [[uv, "venv", "--quiet", str(made)], [uv, "pip", *words, "--python", str(made / "bin" / "python")]]
        pip = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        return [[sys.executable, "-m", "venv", str(made)], [*pip, *words]]

    def clear(self, side: Path) -> None:
        """Remove what the side's commit has where its environment is to be: nothing of it may be started."""
        if (place := self.place(side)) != side / self.project.relative_to(self.root):
            try:
                environments.clear(place)
            except LendError as error:
                raise PackagesError(str(error)) from None

    def finish(self, side: Path) -> None:
        """Add the side's own packages to what was installed there."""
        ours, theirs = self.project / self.folder, self.place(side)
        if self.folder and ours.is_dir():
            try:
                environments.add(theirs, list(self.imported(ours, side)))
            except LendError as error:
                raise PackagesError(str(error)) from None


def virtualenv(project: Path, root: Path) -> str:
    """The option of that name of a project or a policy pack; nothing where it leads out of the repository."""
    for name in ("Pulumi.yaml", "Pulumi.yml", "PulumiPolicy.yaml"):
        try:
            settings = stack_nodes.loaded(project / name)
        except stack_nodes.UnfitError:
            continue
        runtime = settings.get("runtime") if isinstance(settings, dict) else None
        options = runtime.get("options") if isinstance(runtime, dict) else None
        folder = options.get("virtualenv") if isinstance(options, dict) else None
        inside = isinstance(folder, str) and Path(os.path.normpath(project / folder)).is_relative_to(root)
        return str(folder) if inside else ""
    return ""


def _refuse(file: Path, trusted: str, side: Path) -> None:
    if lines := requirements.refused(file.read_text(errors="replace"), trusted):
        listed = "\n".join(f"  got: {line[:200]}" for line in lines[:10])
        raise PackagesError(
            f"{file.relative_to(side)}: has lines that nobody trusts, because they may run code while they are "
            f"installed, with the network\n{listed}\n  expected: names with versions and hashes; and indexes that the "
            "base has too\n  hint: where nothing is worth stealing, name the command with --install"
        )
