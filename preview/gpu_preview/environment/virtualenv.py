"""Reads the option `virtualenv` of a project or a policy pack.

A pull request can change the option, so its value is untrusted text.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib import util
from pathlib import Path
from typing import Any

from gpu_common.visible import visible

from .. import pulumi_files
from ..errors import PreviewError
from ..isolation import files
from ..json_text import as_map

# In bytes: the limit of a name (NAME_MAX), and a quarter of the limit of a path (PATH_MAX), as the option is only a
# part of the path.
_LONGEST_NAME, _LONGEST_PATH = 255, 1024
_SHOWN = 60
# Package managers other than pip, each with its lock.
_TOOLS = ("uv", "poetry")


def named_folder(project: Path, root: Path) -> str:
    """Return the folder relative to the project, or "" if none is named, or if it is outside of `root` or invalid."""
    folder = _environment_folder(project)
    if not folder or problem_of(project):
        return ""
    return folder if Path(os.path.normpath(project / folder)).is_relative_to(root) else ""


def problem_of(project: Path) -> str:
    """Return why the named folder cannot be an environment, or "" if it can, or if none is named."""
    folder = _environment_folder(project)
    size, names = len(folder.encode()), folder.encode().split(b"/")
    valid = size <= _LONGEST_PATH and all(len(name) <= _LONGEST_NAME for name in names)
    if any(unicodedata.category(character) == "Cc" for character in folder) or not valid:
        return f"Pulumi.yaml: virtualenv is no name of a folder\n  got: {visible(folder, _SHOWN)}"
    if folder and project.is_relative_to(os.path.normpath(project / folder)):
        got = visible(folder, _SHOWN)
        return f"Pulumi.yaml: virtualenv is the folder of the project, or a parent of it\n  got: {got}"
    return ""


def toolchain(project: Path) -> str:
    """Return the package manager (pip, uv or poetry) from Pulumi.yaml, or else from a lock file.

    Source: pulumi/pulumi v3.259.0, sdk/python/toolchain/toolchain.go, ResolveToolchain. Pulumi.yaml can have any text.
    """
    named = _options(project).get("toolchain")
    if isinstance(named, str) and named:
        return named
    return next((name for name in _TOOLS if _above(project, f"{name}.lock")), "pip")


def run_without_tool(project: Path, environment: Path, names: Sequence[str] = pulumi_files.NAMES) -> None:
    """Change a project file so that its program runs in the given environment.

    For uv and poetry, the toolchain becomes pip: they would install the packages again, and have no network access.
    The caller ensures that no folder of the path is a link.
    """
    if environment != project and toolchain(project) in _TOOLS:
        pulumi_files.set_runtime_options(project, names, toolchain="pip", virtualenv=str(environment))


def _environment_folder(project: Path) -> str:
    """Return the option, or the default folder of uv, or of poetry with its setting `virtualenvs.in-project`."""
    folder, tool = _options(project).get("virtualenv"), toolchain(project)
    if isinstance(folder, str) and folder and tool != "poetry":  # poetry ignores the option.
        return folder
    if tool not in _TOOLS:
        return ""
    tool_folder = _above(project, f"{tool}.lock") or _above(project, "pyproject.toml") or project
    return os.path.relpath(tool_folder / ".venv", project)


def _above(project: Path, name: str) -> Path | None:
    """Return the nearest folder with the file, from the program's folder upwards."""
    main = pulumi_files.settings(project).get("main")
    program = project / main if isinstance(main, str) and "\0" not in main else project
    start = Path(os.path.normpath(program))
    with contextlib.suppress(OSError):  # The path is longer than the system allows.
        return next((each for each in (start, *start.parents) if (each / name).is_file()), None)
    return None


def _options(project: Path) -> Mapping[str, Any]:
    for name in ("Pulumi.yaml", "Pulumi.yml", "PulumiPolicy.yaml"):
        try:
            settings = pulumi_files.loaded(project / name)
        except pulumi_files.InvalidStackFileError:
            continue
        return as_map(as_map(as_map(settings).get("runtime")).get("options"))
    return {}


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
        files.remove(folder)
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
