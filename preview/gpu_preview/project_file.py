"""What Pulumi.yaml says: where its stacks' files are, and values for all of them.

The form is that of pulumi/pulumi v3.259.0, sdk/go/common/workspace/project.go (Project, ProjectConfigType). A pull
request brings the file, so it is read as one that anybody may have written.
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
from .json_text import as_map, as_text

NAMES = ("Pulumi.yaml", "Pulumi.yml")
_LEFT_OUT = ("node_modules", "site-packages")


class OutsideError(ValueError):
    """The stack files are said to be where no file of the project is."""


def path(project: Path) -> Path | None:
    """The file in a project's folder; None where there is none that can be read."""
    return _read(project)[0]


def settings(project: Path) -> Mapping[str, Any]:
    """What it says; nothing where it cannot be read, because the engine itself tells that better."""
    return as_map(_read(project)[1])


def name(project: Path) -> str:
    """The name of the project; empty where none can be read."""
    return as_text(settings(project).get("name"))


def set_runtime_options(project: Path, names: Sequence[str] = NAMES, **options: str) -> None:
    """Write the file again with these options of its runtime; nothing where it cannot be read.

    All else keeps its text: PyYAML takes 12:30:00 for a number and `no` for false, the engine for what they are. The
    caller makes sure that no folder on the way is a link.
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
    """Where the files of its stacks are: beside it, or where `stackConfigDir` says, or `config`, its older name.

    OutsideError for a folder that is not in the project's, or below a link.
    """
    content = settings(project)
    inside = as_text(content.get("stackConfigDir")) or as_text(content.get("config"))
    if not inside:
        return project
    try:
        whole = project.resolve()
        folder = whole / inside
        fits = folder.resolve() == folder and folder.is_relative_to(whole) and not folder.is_symlink()
    except (OSError, RuntimeError, ValueError):  # a name that is none, or links without an end
        fits = False
    if not fits:
        raise OutsideError("stackConfigDir of Pulumi.yaml leads out of the project, or over a link, or is no path")
    return project / inside


def defaults(stack_file: Path) -> Mapping[str, Any]:
    """What `config:` of the project gives every stack that says nothing else, by key; of one of its stack files."""
    project = next((each for each in stack_file.parents if path(each)), None)
    content = settings(project) if project else {}
    values = {str(key): _value(each) for key, each in as_map(content.get("config")).items()}
    # A key without a namespace is the project's own.
    named = {key if ":" in key else f"{as_text(content.get('name'))}:{key}": value for key, value in values.items()}
    return {key: value for key, value in named.items() if value is not None}


def moved(before: Path, after: Path, roots: tuple[Path, Path]) -> str:
    """Why two sides of a change are not the same project to the engine; nothing where they are.

    `before` and `after` are the project's folders in what has been checked out below `roots`.
    """
    old, new = (name(each) for each in (before, after))
    if old and new and old != new:
        return (
            "the project has another name in the head, so to the engine its stacks are others, and all that the old "
            f"ones have stays as it is\n  got: {visible(new, 100)}\n  expected: {visible(old, 100)}\n"
            "  hint: pulumi stack rename, in a change of its own"
        )
    if bool(old) == bool(new):
        return ""
    has, lacks, root = ("head", "base", roots[0]) if new else ("base", "head", roots[1])
    for other in _projects(root):
        if name(other) == (old or new):
            return (
                f"the project {visible(old or new, 100)} is in another folder in the {lacks}, so nothing can be "
                f"compared\n  got: {visible(str(other.relative_to(root)), 100)} in the {lacks}, "
                f"{visible(str(after.relative_to(roots[1])), 100)} in the {has}\n"
                "  hint: move it in a change of its own; its stacks stay the same, as its name does"
            )
    return ""


def _projects(root: Path) -> Iterator[Path]:
    for each in NAMES:
        for file in sorted(root.rglob(each)):
            parts = file.relative_to(root).parts
            if not any(part in _LEFT_OUT or part.startswith(".") for part in parts):
                yield file.parent


def _value(content: Any) -> Any:
    """A value alone, or a map with `value` or `default`, and more that says what it has to be."""
    if isinstance(content, Mapping):
        return content.get("value", content.get("default"))
    return content
