"""The Python environment of a side: that of the checkout where both want the same packages, else one of its own.

Packages a checkout has installed as editable (its own) are those of the side, not of the checkout: a preview of another
commit with this one's modules would be of neither.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_LOCKS = ("requirements*.lock", "requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
_INSTALLED = ("requirements.lock", "requirements.txt")
_MAKE_SEC = 60


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
        theirs = side / self.project.relative_to(self.root) / self.folder
        _make(ours / "bin" / "python", theirs)
        _write(theirs, [*self.imported(ours, side), *map(str, _site_packages(ours))])

    def imported(self, environment: Path, side: Path) -> Iterator[str]:
        """The folders an environment imports from beside its own: those of the checkout as they are in the side."""
        for packages in _site_packages(environment):
            for file in sorted(packages.glob("*.pth")):
                for line in file.read_text(errors="replace").splitlines():
                    folder = Path(line.strip())
                    if folder.is_absolute():
                        inside = folder.is_relative_to(self.root) and ".venv" not in folder.parts
                        yield str(side / folder.relative_to(self.root)) if inside else str(folder)

    def installation(self, side: Path) -> list[list[str]]:
        """The commands that give a side packages of its own. PackagesError where nothing says which."""
        project = side / self.project.relative_to(self.root)
        wanted = next((path for name in _INSTALLED for path in (project / name, side / name) if path.is_file()), None)
        folder = virtualenv(project, side)
        if wanted is None or not folder:
            raise PackagesError(
                f"{project.name}: its lock differs from the checkout's, and nothing says how to install it\n"
                f"  expected: one of {', '.join(_INSTALLED)}, and a virtualenv in Pulumi.yaml\n"
                "  hint: name the command with --install"
            )
        # Wheels only: a source distribution runs code of its own to be installed.
        hashed = ["--require-hashes"] if "--hash=" in wanted.read_text(errors="replace") else []
        words = ["install", "--only-binary", ":all:", *hashed, "-r", str(wanted)]
        made = project / folder
        if uv := shutil.which("uv"):
            return [[uv, "venv", "--quiet", str(made)], [uv, "pip", *words, "--python", str(made / "bin" / "python")]]
        pip = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        return [[sys.executable, "-m", "venv", str(made)], [*pip, *words]]

    def finish(self, side: Path) -> None:
        """Add the side's own packages to what was installed there."""
        project = side / self.project.relative_to(self.root)
        theirs = project / virtualenv(project, side)
        ours = self.project / self.folder
        if self.folder and ours.is_dir():
            _write(theirs, list(self.imported(ours, side)))


def virtualenv(project: Path, root: Path) -> str:
    """The option of that name of a project or a policy pack; nothing where it leads out of the repository."""
    for name in ("Pulumi.yaml", "Pulumi.yml", "PulumiPolicy.yaml"):
        try:
            settings: Any = yaml.safe_load((project / name).read_text())
        except (OSError, ValueError, yaml.YAMLError):
            continue
        runtime = settings.get("runtime") if isinstance(settings, dict) else None
        options = runtime.get("options") if isinstance(runtime, dict) else None
        folder = options.get("virtualenv") if isinstance(options, dict) else None
        inside = isinstance(folder, str) and Path(os.path.normpath(project / folder)).is_relative_to(root)
        return str(folder) if inside else ""
    return ""


def _make(python: Path, folder: Path) -> None:
    made = subprocess.run(
        [str(python), "-I", "-m", "venv", "--without-pip", "--symlinks", str(folder)],
        capture_output=True, text=True, timeout=_MAKE_SEC, check=False,
    )  # fmt: skip
    if made.returncode:
        raise PackagesError(f"{folder.name}: could not be made: {made.stderr.strip() or made.stdout.strip()}")


def _site_packages(environment: Path) -> list[Path]:
    return sorted(environment.glob("lib/python3*/site-packages"))


def _write(environment: Path, folders: list[str]) -> None:
    for packages in _site_packages(environment):
        (packages / "_side.pth").write_text("".join(f"{folder}\n" for folder in folders))
