"""Reads the option `virtualenv` of a project or a policy pack.

A pull request can change the option, so its value is untrusted text.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_common.visible import visible

from .. import project_file, stack_yaml
from ..json_text import as_map

# In bytes: the limit of a name (NAME_MAX), and a quarter of the limit of a path (PATH_MAX), as the option is only a
# part of the path.
_LONGEST_NAME, _LONGEST_PATH = 255, 1024
_SHOWN = 60
# Package managers other than pip, each with its lock.
_TOOLS = ("uv", "poetry")


def virtualenv(project: Path, root: Path) -> str:
    """Return the folder relative to the project, or "" if none is named, or if it is outside of `root` or invalid."""
    folder = _environment_folder(project)
    if not folder or problem_of(project):
        return ""
    return folder if Path(os.path.normpath(project / folder)).is_relative_to(root) else ""


def problem_of(project: Path) -> str:
    """Return why the named folder cannot be an environment, or "" if it can, or if none is named."""
    folder = _environment_folder(project)
    got = f"\n  got: {visible(folder, _SHOWN)}"
    if any(unicodedata.category(character) == "Cc" for character in folder):
        return f"Pulumi.yaml: virtualenv has a control character{got}"
    size, names = len(folder.encode()), folder.encode().split(b"/")
    if size > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in names):
        return f"Pulumi.yaml: virtualenv is longer than a folder's name can be{got}"
    if folder and project.is_relative_to(os.path.normpath(project / folder)):
        return f"Pulumi.yaml: virtualenv is the folder of the project, or a parent of it{got}"
    return ""


def toolchain(project: Path) -> str:
    """Return the package manager (pip, uv or poetry) from Pulumi.yaml, or else from a lock file.

    Source: pulumi/pulumi v3.259.0, sdk/python/toolchain/toolchain.go, ResolveToolchain. Pulumi.yaml can have any text.
    """
    named = _options(project).get("toolchain")
    if isinstance(named, str) and named:
        return named
    return next((name for name in _TOOLS if _above(project, f"{name}.lock")), "pip")


def run_without_tool(project: Path, environment: Path, names: Sequence[str] = project_file.NAMES) -> None:
    """Change a project file so that its program runs in the given environment.

    For uv and poetry, the toolchain becomes pip: they would install the packages again, and have no network access.
    The caller ensures that no folder of the path is a link.
    """
    if environment != project and toolchain(project) in _TOOLS:
        project_file.set_runtime_options(project, names, toolchain="pip", virtualenv=str(environment))


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
    main = project_file.settings(project).get("main")
    program = project / main if isinstance(main, str) and "\0" not in main else project
    start = Path(os.path.normpath(program))
    with contextlib.suppress(OSError):  # The path is longer than the system allows.
        return next((each for each in (start, *start.parents) if (each / name).is_file()), None)
    return None


def _options(project: Path) -> Mapping[str, Any]:
    for name in ("Pulumi.yaml", "Pulumi.yml", "PulumiPolicy.yaml"):
        try:
            settings = stack_yaml.loaded(project / name)
        except stack_yaml.InvalidStackFileError:
            continue
        return as_map(as_map(as_map(settings).get("runtime")).get("options"))
    return {}
