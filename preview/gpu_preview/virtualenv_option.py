"""The option `virtualenv` of a project or a policy pack. A pull request brings it, so it may be any text."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from . import stack_nodes
from .visible import visible

# Of a name (NAME_MAX), and a quarter of what a whole path may have (PATH_MAX): a checkout lies somewhere too.
_LONGEST_NAME, _LONGEST_PATH = 255, 1024
_SHOWN = 60


def virtualenv(project: Path, root: Path) -> str:
    """Its folder, relative to the project; nothing where it leads out of the repository, or can be none."""
    folder = _named(project)
    if not folder or unfit(project):
        return ""
    return folder if Path(os.path.normpath(project / folder)).is_relative_to(root) else ""


def unfit(project: Path) -> str:
    """Why what is named can be no environment; nothing where it can, or where none is named."""
    folder = _named(project)
    got = f"\n  got: {visible(folder, _SHOWN)}"
    if any(unicodedata.category(character) == "Cc" for character in folder):
        return f"Pulumi.yaml: virtualenv has a character that no folder's name has{got}"
    size, names = len(folder.encode()), folder.encode().split(b"/")
    if size > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in names):
        return f"Pulumi.yaml: virtualenv is longer than a folder's name can be{got}"
    if folder and project.is_relative_to(os.path.normpath(project / folder)):
        return f"Pulumi.yaml: virtualenv is the folder of the project, or one around it{got}"
    return ""


def _named(project: Path) -> str:
    """The option as it is written."""
    for name in ("Pulumi.yaml", "Pulumi.yml", "PulumiPolicy.yaml"):
        try:
            settings = stack_nodes.loaded(project / name)
        except stack_nodes.UnfitError:
            continue
        runtime = settings.get("runtime") if isinstance(settings, dict) else None
        options = runtime.get("options") if isinstance(runtime, dict) else None
        folder = options.get("virtualenv") if isinstance(options, dict) else None
        return folder if isinstance(folder, str) else ""
    return ""
