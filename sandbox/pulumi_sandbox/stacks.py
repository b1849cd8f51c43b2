"""Makes a stack in the sandbox's state for a stack file that is there already."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

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


def missing(workspace: Workspace, stack: str) -> Path | None:
    """The file of a stack that the project has and the state has not."""
    short = stack.rsplit("/", 1)[-1]
    settings = project_settings(workspace.project)
    name, folder = settings.get("name"), settings.get("stackConfigDir") or settings.get("config")
    file = workspace.project / (folder if isinstance(folder, str) else "") / f"Pulumi.{short}.yaml"
    if not isinstance(name, str) or not file.is_file():
        return None
    states = workspace.backend / ".pulumi" / "stacks" / name
    if any((states / f"{short}{ending}").is_file() for ending in (".json", ".json.gz")):
        return None
    return file


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
