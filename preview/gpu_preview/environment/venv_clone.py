"""Writes a virtual environment without starting an interpreter.

The interpreter of a checkout can be a file of the pull request. Starting it would run that file without isolation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata, util
from pathlib import Path

from ..isolation import temporary
from .requirements import Named


class VenvError(Exception):
    """No environment can be written. The text says why."""


def create(ours: Path, theirs: Path, imports: Sequence[str]) -> None:
    """Write an environment with the interpreter of `ours` that imports from these folders.

    Existing files are removed, and nothing is written through a link, because a commit can have any link.
    """
    settings, python = ours / "pyvenv.cfg", ours / "bin" / "python"
    if not (settings.is_file() and python.exists() and site_packages(ours)):
        raise VenvError(f"{ours}: is no virtual environment")
    clear(theirs)
    (theirs / "bin").mkdir(parents=True)
    shutil.copyfile(settings, theirs / "pyvenv.cfg")
    (theirs / "bin" / "python").symlink_to(os.path.realpath(python))
    for packages in site_packages(ours):
        (theirs / "bin" / packages.parent.name).symlink_to("python")
        (theirs / packages.relative_to(ours)).mkdir(parents=True)
    (theirs / "bin" / "python3").symlink_to("python")
    _add_pip(theirs, imports)
    add(theirs, imports)


def _add_pip(environment: Path, imports: Sequence[str]) -> None:
    """Add pip if these folders have none: Pulumi's own language host lists the packages with it.

    uv makes environments without pip.
    """
    ours = util.find_spec("pip")
    if ours is None or ours.origin is None or any((Path(folder) / "pip").is_dir() for folder in imports):
        return
    for packages in site_packages(environment):
        (packages / "pip").symlink_to(Path(ours.origin).parent)


def clear(folder: Path) -> None:
    """Remove a commit's files at the path of the environment. VenvError if the path goes through a link."""
    if resolved(folder.parent) != folder.parent:
        raise VenvError(f"{folder.name}: lies behind a link")
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        temporary.remove(folder)
        if folder.exists():
            raise VenvError(f"{folder.name}: is in the way of an environment, and cannot be removed")


def add(environment: Path, imports: Sequence[str]) -> None:
    """Add import folders to an environment. VenvError if the environment leads out of itself."""
    for packages in site_packages(environment):
        if packages.resolve() != packages:
            raise VenvError(f"{environment.name}: {packages.relative_to(environment)} leads elsewhere")
        file = packages / "_side.pth"
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.writelines(f"{folder}\n" for folder in imports)


def readable(environment: Path, checkout: Path) -> list[Path]:
    """What of an environment may be seen behind the walls: itself and its Python, and nothing where it is none.

    The name comes from a file that a pull request may have changed, so it may be that of any folder, or of a link. A
    Python that was installed for a user lies in a home, which is hidden otherwise.
    """
    folder = Path(os.path.normpath(environment))
    if resolved(folder) != folder or not (folder / "pyvenv.cfg").is_file() or not site_packages(folder):
        return []
    if checkout.is_relative_to(folder):
        return []
    python = installation(folder, checkout)
    return [folder, *([python] if python else [])]


def installation(environment: Path, checkout: Path) -> Path | None:
    """The Python that an environment was made of, where what its link leads to is one: it may lead anywhere.

    What is in the checkout, or around it, is none: that would show all that lies there untracked.
    """
    prefix = Path(os.path.realpath(environment / "bin" / "python")).parent.parent
    if prefix.is_relative_to(checkout) or checkout.is_relative_to(prefix):
        return None
    return prefix if any(prefix.glob("lib/python3*/os.py")) else None


def brings_python(environment: Path, checkout: Path) -> bool:
    """Return True if its Python is a file of the checkout outside the environment, which may be the pull request's."""
    return any(
        path.is_relative_to(checkout) and not path.is_relative_to(environment) for path in _interpreters(environment)
    )


def _interpreters(environment: Path) -> Iterator[Path]:
    """Return the paths of its Python: from its link, and from `home`, which Python reads to find itself (PEP 405)."""
    yield Path(os.path.realpath(environment / "bin" / "python"))
    settings = environment / "pyvenv.cfg"
    for line in settings.read_text(errors="replace").splitlines() if settings.is_file() else ():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home" and "\0" not in value:
            yield Path(os.path.realpath(environment / value.strip()))


def resolved(path: Path) -> Path | None:
    """Return the target of a path, or None for a link to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return None


def lacking(folders: Sequence[str], wanted: Iterable[Named]) -> list[str]:
    """Return the packages that these folders lack, or have in another version."""
    found = []
    for each in wanted:
        there = next(iter(metadata.distributions(name=each.requirement.name, path=list(folders))), None)
        # A package without a version was removed incompletely (importlib.metadata).
        version = there.metadata["Version"] if there else None
        if not version or not each.requirement.specifier.contains(version, prereleases=True):
            found.append(f"{each.requirement.name}{each.requirement.specifier}")
    return found


def site_packages(environment: Path) -> list[Path]:
    """Return the folder of its packages."""
    return sorted(environment.glob("lib/python3*/site-packages"))
