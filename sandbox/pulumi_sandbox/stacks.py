"""Makes a stack in the sandbox's state for a stack file that is there already."""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox import yaml_file
from pulumi_sandbox.engine import Engine
from pulumi_sandbox.workspace import PROJECT_FILES, Workspace


def project_settings(folder: Path) -> dict[str, Any]:
    """Pulumi.yaml; empty where it cannot be read, because Pulumi itself tells that better."""
    for name in PROJECT_FILES:
        try:
            settings = yaml.safe_load((folder / name).read_text())
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(settings, dict):
            return settings
    return {}


def config_folder(workspace: Workspace) -> Path:
    """Where the project keeps its stack files."""
    settings = project_settings(workspace.project)
    folder = settings.get("stackConfigDir") or settings.get("config")
    return workspace.project / (folder if isinstance(folder, str) else "")


def in_state(workspace: Workspace, stack: str) -> bool:
    """Whether the sandbox's state has the stack."""
    name, short = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    states = workspace.backend / ".pulumi" / "stacks" / str(name)
    return any((states / f"{short}{ending}").is_file() for ending in (".json", ".json.gz"))


def missing(workspace: Workspace, stack: str) -> Path | None:
    """The file of a stack that the project has and the state has not."""
    file = config_folder(workspace) / f"Pulumi.{stack.rsplit('/', 1)[-1]}.yaml"
    named = isinstance(project_settings(workspace.project).get("name"), str)
    return file if named and file.is_file() and not in_state(workspace, stack) else None


def others(workspace: Workspace, stack: str) -> list[str]:
    """The stacks that have a file, where this one has neither a file nor a state."""
    folder, short = config_folder(workspace), stack.rsplit("/", 1)[-1]
    if in_state(workspace, stack) or (folder / f"Pulumi.{short}.yaml").is_file():
        return []
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml"))


def explain(workspace: Workspace, stack: str, say: Callable[[str], None]) -> None:
    """Say what the engine is about to say less of: a stack that is nowhere. YamlFileError for a broken file."""
    file = config_folder(workspace) / f"Pulumi.{stack.rsplit('/', 1)[-1]}.yaml"
    if file.is_file():
        yaml_file.check(file)
    elif named := others(workspace, stack):
        near = difflib.get_close_matches(stack, named, 1)
        hint = f"did you mean {near[0]}?" if near else f"or make it: pulumi-sandbox stack init {stack}"
        say(f"{stack}: there is no {file.name} and no such stack\n  expected: {', '.join(named)}\n  hint: {hint}")


def make(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Run `pulumi stack init` where it is needed. What goes wrong there, the command itself meets again and reports."""
    file = missing(workspace, stack)
    if file is None:
        return
    answer = subprocess.run(
        [engine.executable, "stack", "init", stack, "--no-select", "--non-interactive"],
        cwd=workspace.project, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if answer.returncode == 0:
        say(f"made the stack {stack} in the sandbox, from {file.name}")
    elif missing(workspace, stack) is not None:  # else another command made it meanwhile
        say(f"the stack {stack} could not be made from {file.name}:\n{answer.stderr.strip()}")
