"""Creates a stack in the sandbox's state for an existing stack file."""

from __future__ import annotations

import glob
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from gpu_common.suggest import closest

from pulumi_sandbox import yaml_file
from pulumi_sandbox.engine.model import Engine
from pulumi_sandbox.workspace import PROJECT_FILES, Workspace, YamlFileError

PASSPHRASES = frozenset({"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"})
NOT_OURS = "the stack is opened with your PULUMI_CONFIG_PASSPHRASE; unset it to use the sandbox's own"


@cache
def project_settings(folder: Path) -> dict[str, Any]:
    """Return the content of Pulumi.yaml, or an empty dict if it cannot be read. Pulumi reports that error itself."""
    for name in PROJECT_FILES:
        try:
            settings = yaml.safe_load((folder / name).read_text())
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        if isinstance(settings, dict):
            return settings
    return {}


def stack_file(workspace: Workspace, stack: str) -> Path:
    """Return the path of a stack's file. As in the engine, its suffix is that of the project file."""
    settings = project_settings(workspace.project)
    folder = settings.get("stackConfigDir") or settings.get("config")
    ending = next((Path(name).suffix for name in PROJECT_FILES if (workspace.project / name).is_file()), ".yaml")
    inside = workspace.project / (folder if isinstance(folder, str) else "")
    return inside / f"Pulumi.{stack.rsplit('/', 1)[-1]}{ending}"


def in_state(workspace: Workspace, stack: str) -> bool:
    """Return True if the sandbox's state has the stack."""
    name, short = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    states = workspace.backend / ".pulumi" / "stacks" / str(name)
    return any((states / f"{short}{ending}").is_file() for ending in (".json", ".json.gz"))


def locks(workspace: Workspace, stack: str) -> list[Path]:
    """Return the lock files of engine commands that use the stack."""
    name, short = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    folders = (workspace.backend / ".pulumi" / "locks").glob(f"*/{glob.escape(str(name))}/{glob.escape(short)}")
    return [file for folder in folders for file in folder.glob("*.json")]


def missing(workspace: Workspace, stack: str) -> Path | None:
    """Return the file of a stack that is in the project and not in the state, or None."""
    file = stack_file(workspace, stack)
    named = isinstance(project_settings(workspace.project).get("name"), str)
    return file if named and file.is_file() and not in_state(workspace, stack) else None


def make(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Run `pulumi stack init` if it is needed. The command that follows reports any error."""
    file = missing(workspace, stack)
    if file is None:
        return
    answer = run_engine(workspace, engine, environment, "stack", "init", stack, "--no-select", "--non-interactive")
    if answer.returncode == 0:
        say(f"made the stack {stack} in the sandbox, from {file.name}")
    elif missing(workspace, stack) is not None:  # Otherwise another command created the stack in the meantime.
        message = answer.stderr.strip()
        if "passphrase" in message and PASSPHRASES & os.environ.keys():
            message += f"\n  hint: {NOT_OURS}"
        why = broken(file) if "YAML" in message else ""
        say(f"the stack {stack} could not be made from {file.name}:\n{why or message}")


def explain(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Return the likely cause of a failed command, for errors that the engine reports without details."""
    file = stack_file(workspace, stack)
    if in_state(workspace, stack):
        # The engine accepts more than our parser. If the engine accepts the file, it is valid.
        if file.is_file() and (why := broken(file)):
            answer = run_engine(workspace, engine, environment, "config", "--json", "--stack", stack)
            if "YAML" in answer.stderr:
                say(why)
        if PASSPHRASES & os.environ.keys():
            say(NOT_OURS)
        if locks(workspace, stack):
            say(
                f"the stack {stack} is locked: another command runs, or one was interrupted before it could unlock it\n"
                f"  hint: for an interrupted one, pulumi-sandbox cancel --stack {stack} --yes"
            )
    elif not file.is_file():
        known = sorted(
            path.stem.removeprefix("Pulumi.") for path in file.parent.glob(f"Pulumi.?*{file.suffix}") if path != file
        )
        near = closest(stack, known)
        hint = (
            f"did you mean {near}?"
            if near
            else f"run pulumi-sandbox stack init {stack}, or create an empty {file.name}"
        )
        expected = f"\n  expected: {', '.join(known)}" if known else ""
        say(f"{stack}: there is no {file.name} and no such stack{expected}\n  hint: {hint}")


def run_engine(
    workspace: Workspace, engine: Engine, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Return the engine's output for another command in the same environment."""
    return subprocess.run(
        [engine.executable, *arguments],
        cwd=workspace.project, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def broken(file: Path) -> str:
    """Return the problem that our parser finds in a file, or an empty text."""
    try:
        yaml_file.check(file)
    except YamlFileError as error:
        return str(error)
    return ""
