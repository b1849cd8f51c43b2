"""Reads Pulumi.yaml: the folder of the stack files, and configuration values for all stacks.

Source of the format: pulumi/pulumi v3.259.0, sdk/go/common/workspace/project.go (Project, ProjectConfigType). A pull
request can change the file, so its content is untrusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from gpu_common.visible import visible
from yaml.representer import SafeRepresenter

from . import stack_yaml
from .errors import PreviewError
from .json_text import as_map, as_text

NAMES = ("Pulumi.yaml", "Pulumi.yml")
_SKIPPED_FOLDERS = ("node_modules", "site-packages")


def path(project: Path) -> Path | None:
    """Return the path of the project file in a folder, or None if no readable file exists."""
    return _read(project)[0]


def settings(project: Path) -> Mapping[str, Any]:
    """Return the content of the project file; empty if it cannot be read, which the engine reports itself."""
    return as_map(_read(project)[1])


def name(project: Path) -> str:
    """Return the name of the project, or "" if it cannot be read."""
    return as_text(settings(project).get("name"))


def set_runtime_options(project: Path, names: Sequence[str] = NAMES, **options: str) -> None:
    """Set options of the runtime in the project file. Do nothing if the file cannot be read.

    The other values keep their text: PyYAML reads 12:30:00 as a number and `no` as false, the engine does not. The
    caller ensures that no folder in the path is a symbolic link.
    """
    for file in (project / name for name in names):
        try:
            document, content = stack_yaml.editable(file), stack_yaml.loaded(file)
        except stack_yaml.InvalidStackFileError:
            continue
        if isinstance(document, yaml.MappingNode) and isinstance(content, Mapping):
            runtime = content.get("runtime")
            known = as_map(runtime) if isinstance(runtime, Mapping) else {"name": runtime}
            wanted = {**known, "options": {**as_map(known.get("options")), **options}}
            node = SafeRepresenter().represent_data(wanted)
            document.value = [(key, node if key.value == "runtime" else value) for key, value in document.value]
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w", encoding="utf-8") as opened:
                opened.write(yaml.serialize(document, Dumper=yaml.SafeDumper, allow_unicode=True))
        return


def _read(project: Path) -> tuple[Path | None, Any]:
    for each in NAMES:
        try:
            return project / each, stack_yaml.loaded(project / each)
        except stack_yaml.InvalidStackFileError:
            continue
    return None, None


def stack_folder(project: Path) -> Path:
    """Return the folder of the stack files: that of the project, or the one in `stackConfigDir` (formerly `config`).

    Raises:
        PreviewError: the folder is outside of the project or below a symbolic link.
    """
    content = settings(project)
    inside = as_text(content.get("stackConfigDir")) or as_text(content.get("config"))
    if not inside:
        return project
    try:
        whole = project.resolve()
        folder = whole / inside
        fits = folder.resolve() == folder and folder.is_relative_to(whole) and not folder.is_symlink()
    except (OSError, RuntimeError, ValueError):  # an invalid path, or a loop of symbolic links
        fits = False
    if not fits:
        raise PreviewError(
            "stackConfigDir of Pulumi.yaml is not a folder in the project, or is below a symbolic link\n"
            "  expected: a relative path to a folder of the project"
        )
    return project / inside


def defaults(stack_file: Path) -> Mapping[str, Any]:
    """Return the default configuration (`config:`) of the project that a stack file belongs to, by key."""
    project = next((each for each in stack_file.parents if path(each)), None)
    content = settings(project) if project else {}
    values = {str(key): _value(each) for key, each in as_map(content.get("config")).items()}
    # A key without a namespace belongs to the namespace of the project.
    named = {key if ":" in key else f"{as_text(content.get('name'))}:{key}": value for key, value in values.items()}
    return {key: value for key, value in named.items() if value is not None}


def why_not_comparable(before: Path, after: Path, roots: tuple[Path, Path]) -> str:
    """Return why base and head are different projects for the engine, or "" if they are the same.

    `before` and `after` are the folders of the project in the checkouts below `roots`.
    """
    old, new = (name(each) for each in (before, after))
    if old and new and old != new:
        return (
            "the head renames the project, so the engine treats its stacks as new ones and keeps the old resources\n"
            f"  got: {visible(new, 100)}\n  expected: {visible(old, 100)}\n"
            "  hint: use pulumi stack rename, in a separate change"
        )
    if bool(old) == bool(new):
        return ""
    has, lacks, root = ("head", "base", roots[0]) if new else ("base", "head", roots[1])
    for other in _projects(root):
        if name(other) == (old or new):
            return (
                f"the project {visible(old or new, 100)} is in another folder in the {lacks}, so it cannot be "
                f"compared\n  got: {visible(str(other.relative_to(root)), 100)} in the {lacks}, "
                f"{visible(str(after.relative_to(roots[1])), 100)} in the {has}\n"
                "  hint: move the project in a separate change; its name and its stacks stay the same"
            )
    return ""


def _projects(root: Path) -> Iterator[Path]:
    for each in NAMES:
        for file in sorted(root.rglob(each)):
            parts = file.relative_to(root).parts
            if not any(part in _SKIPPED_FOLDERS or part.startswith(".") for part in parts):
                yield file.parent


def _value(content: Any) -> Any:
    """Return the value of an entry, which is a plain value, or a mapping with `value` or `default`."""
    if isinstance(content, Mapping):
        return content.get("value", content.get("default"))
    return content
