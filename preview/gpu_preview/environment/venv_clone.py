"""Writes a virtual environment without starting an interpreter.

The interpreter of a checkout can be a file of the pull request. Starting it would run that file without isolation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib import util
from pathlib import Path

from ..errors import PreviewError
from ..isolation import temporary


def create(source: Path, target: Path, imports: Sequence[str]) -> None:
    """Write an environment at `target` that has the interpreter of `source` and imports from these folders.

    Existing files are removed, and nothing is written through a link, because a commit can have any link.
    """
    settings, python = source / "pyvenv.cfg", source / "bin" / "python"
    if not (settings.is_file() and python.exists() and site_packages(source)):
        raise PreviewError(f"{source}: is no virtual environment")
    clear(target)
    (target / "bin").mkdir(parents=True)
    shutil.copyfile(settings, target / "pyvenv.cfg")
    (target / "bin" / "python").symlink_to(os.path.realpath(python))
    for packages in site_packages(source):
        (target / "bin" / packages.parent.name).symlink_to("python")
        (target / packages.relative_to(source)).mkdir(parents=True)
    (target / "bin" / "python3").symlink_to("python")
    _add_pip(target, imports)
    add(target, imports)


def _add_pip(environment: Path, imports: Sequence[str]) -> None:
    """Add the pip of this program if these folders have none, as in an environment that uv has created.

    Pulumi's language host lists the packages with pip.
    """
    own_pip = util.find_spec("pip")
    if own_pip is None or own_pip.origin is None or any((Path(folder) / "pip").is_dir() for folder in imports):
        return
    for packages in site_packages(environment):
        (packages / "pip").symlink_to(Path(own_pip.origin).parent)


def clear(folder: Path) -> None:
    """Remove a commit's files at the path of the environment. PreviewError if the path goes through a link."""
    if resolved(folder.parent) != folder.parent:
        raise PreviewError(f"{folder.name}: its path goes through a symbolic link")
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        temporary.remove(folder)
        if folder.exists():
            raise PreviewError(f"{folder.name}: is in the way of an environment, and cannot be removed")


def add(environment: Path, imports: Sequence[str]) -> None:
    """Add import folders to an environment. PreviewError if its site-packages are below a link."""
    for packages in site_packages(environment):
        if packages.resolve() != packages:
            raise PreviewError(f"{environment.name}: {packages.relative_to(environment)} is below a symbolic link")
        file = packages / "_side.pth"
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.writelines(f"{folder}\n" for folder in imports)


def readable(environment: Path, checkout: Path) -> list[Path]:
    """Return the paths that an isolated process can read: the environment and its Python; none for any other folder.

    The path of the environment comes from a file that a pull request can change, so it can be any folder or a link. A
    Python that is installed for one user is in a home folder, which isolation hides otherwise.
    """
    folder = Path(os.path.normpath(environment))
    if resolved(folder) != folder or not (folder / "pyvenv.cfg").is_file() or not site_packages(folder):
        return []
    if checkout.is_relative_to(folder):
        return []
    python = installation(folder, checkout)
    return [folder, *([python] if python else [])]


def installation(environment: Path, checkout: Path) -> Path | None:
    """Return the folder of the Python installation that an environment links to, or None.

    The link can lead anywhere, so the folder must look like an installation of Python. A folder in the checkout or
    around it does not count, because isolated processes would then read the untracked files in it.
    """
    prefix = Path(os.path.realpath(environment / "bin" / "python")).parent.parent
    if prefix.is_relative_to(checkout) or checkout.is_relative_to(prefix):
        return None
    return prefix if any(prefix.glob("lib/python3*/os.py")) else None


def has_python_of_checkout(environment: Path, checkout: Path) -> bool:
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


def site_packages(environment: Path) -> list[Path]:
    """Return the folders with the packages of an environment, usually one."""
    return sorted(environment.glob("lib/python3*/site-packages"))
