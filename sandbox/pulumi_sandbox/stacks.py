"""Makes a stack in the sandbox's state for a stack file that is there already."""

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
    """Pulumi.yaml; empty where it cannot be read, because Pulumi itself tells that better."""
    for name in PROJECT_FILES:
        try:
            settings = yaml.safe_load((folder / name).read_text())
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        if isinstance(settings, dict):
            return settings
    return {}


def stack_file(workspace: Workspace, stack: str) -> Path:
    """Where the project keeps a stack's file; its ending is the project file's own, as the engine has it."""
    settings = project_settings(workspace.project)
    folder = settings.get("stackConfigDir") or settings.get("config")
    ending = next((Path(name).suffix for name in PROJECT_FILES if (workspace.project / name).is_file()), ".yaml")
    inside = workspace.project / (folder if isinstance(folder, str) else "")
    return inside / f"Pulumi.{stack.rsplit('/', 1)[-1]}{ending}"


def in_state(workspace: Workspace, stack: str) -> bool:
    """Whether the sandbox's state has the stack."""
    name, short = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    states = workspace.backend / ".pulumi" / "stacks" / str(name)
    return any((states / f"{short}{ending}").is_file() for ending in (".json", ".json.gz"))


def locks(workspace: Workspace, stack: str) -> list[Path]:
    """The files with which commands of the engine hold the stack."""
    name, short = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    folders = (workspace.backend / ".pulumi" / "locks").glob(f"*/{glob.escape(str(name))}/{glob.escape(short)}")
    return [file for folder in folders for file in folder.glob("*.json")]


def missing(workspace: Workspace, stack: str) -> Path | None:
    """The file of a stack that the project has and the state has not."""
    file = stack_file(workspace, stack)
    named = isinstance(project_settings(workspace.project).get("name"), str)
    return file if named and file.is_file() and not in_state(workspace, stack) else None


def make(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Run `pulumi stack init` where it is needed. What goes wrong there, the command itself meets again and reports."""
    file = missing(workspace, stack)
    if file is None:
        return
    answer = run_engine(workspace, engine, environment, "stack", "init", stack, "--no-select", "--non-interactive")
    if answer.returncode == 0:
        say(f"made the stack {stack} in the sandbox, from {file.name}")
    elif missing(workspace, stack) is not None:  # else another command made it meanwhile
        message = answer.stderr.strip()
        if "passphrase" in message and PASSPHRASES & os.environ.keys():
            message += f"\n  hint: {NOT_OURS}"
        why = broken(file) if "YAML" in message else ""
        say(f"the stack {stack} could not be made from {file.name}:\n{why or message}")


def explain(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """After a command failed: what it may have failed at, where the engine itself says less."""
    file = stack_file(workspace, stack)
    if in_state(workspace, stack):
        # The engine takes more than our parser does, and is believed where it takes the file.
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
        if known:
            near = closest(stack, known)
            hint = f"did you mean {near}?" if near else f"or make it: pulumi-sandbox stack init {stack}"
            say(f"{stack}: there is no {file.name} and no such stack\n  expected: {', '.join(known)}\n  hint: {hint}")


def run_engine(
    workspace: Workspace, engine: Engine, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """What the engine says to another command, in the same surroundings."""
    return subprocess.run(
        [engine.executable, *arguments],
        cwd=workspace.project, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def broken(file: Path) -> str:
    """What our parser finds wrong with a file; empty for nothing."""
    try:
        yaml_file.check(file)
    except YamlFileError as error:
        return str(error)
    return ""
