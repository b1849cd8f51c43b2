"""A virtual environment that is written, not made by an interpreter.

The interpreter of a checkout may be a file of the pull request, and starting it would run that outside all walls.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path


class LendError(Exception):
    """There is none to lend, or no place for it; the text says why."""


def lend(ours: Path, theirs: Path, imports: Sequence[str]) -> None:
    """Write an environment with the interpreter of `ours`, which imports from these folders.

    What stands there is removed, and nothing is written through a link: a commit may hold any.
    """
    settings, python = ours / "pyvenv.cfg", ours / "bin" / "python"
    if not (settings.is_file() and python.exists() and site_packages(ours)):
        raise LendError(f"{ours}: is no virtual environment")
    clear(theirs)
    (theirs / "bin").mkdir(parents=True)
    shutil.copyfile(settings, theirs / "pyvenv.cfg")
    (theirs / "bin" / "python").symlink_to(os.path.realpath(python))
    for packages in site_packages(ours):
        (theirs / "bin" / packages.parent.name).symlink_to("python")
        (theirs / packages.relative_to(ours)).mkdir(parents=True)
    (theirs / "bin" / "python3").symlink_to("python")
    add(theirs, imports)


def clear(folder: Path) -> None:
    """Remove what a commit has in the place of an environment. LendError where the place is behind a link."""
    if folder.parent.resolve() != folder.parent:
        raise LendError(f"{folder.name}: lies behind a link")
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def add(environment: Path, imports: Sequence[str]) -> None:
    """Let an environment import from these folders too. LendError where it leads out of itself."""
    for packages in site_packages(environment):
        if packages.resolve() != packages:
            raise LendError(f"{environment.name}: {packages.relative_to(environment)} leads elsewhere")
        file = packages / "_side.pth"
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.writelines(f"{folder}\n" for folder in imports)


def readable(environment: Path) -> list[Path]:
    """What of an environment may be seen behind the walls: itself and its Python, and nothing where it is none.

    The name comes from a file that a pull request may have changed, so it may be that of any folder, or of a link. A
    Python that was installed for a user lies in a home, which is hidden otherwise.
    """
    folder = Path(os.path.normpath(environment))
    if folder.resolve() != folder or not (folder / "pyvenv.cfg").is_file() or not site_packages(folder):
        return []
    python = installation(folder)
    return [folder, *([python] if python else [])]


def installation(environment: Path) -> Path | None:
    """The Python that an environment was made of, where what its link leads to is one: it may lead anywhere."""
    prefix = Path(os.path.realpath(environment / "bin" / "python")).parent.parent
    return prefix if any(prefix.glob("lib/python3*/os.py")) else None


def site_packages(environment: Path) -> list[Path]:
    """Where its packages are."""
    return sorted(environment.glob("lib/python3*/site-packages"))
