"""Stacks of the sandbox: their files and their states, and the stack that the engine uses.

The engine gets copies of stack files, so that no command changes a file that real deployments use. It writes its
encryption settings into the stack file, and deletes those of another secrets provider, such as `encryptedkey`, the
only copy of a data key (pulumi/pulumi v3.259.0, pkg/secrets/passphrase/manager.go,
NewPromptingPassphraseSecretsManager). The copies are in `.sandbox/stacks`, next to a project file of the same project,
for commands that accept no other stack file.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from gpu_common.passphrase import opens
from gpu_common.suggest import closest

from pulumi_sandbox.engine.model import Engine, EngineError, write_whole
from pulumi_sandbox.workspace import PROJECT_FILES, Workspace, yaml_error


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
    suffix = next((Path(name).suffix for name in PROJECT_FILES if (workspace.project / name).is_file()), ".yaml")
    parent = workspace.project / (folder if isinstance(folder, str) else "")
    return parent / f"Pulumi.{stack.rsplit('/', 1)[-1]}{suffix}"


def in_state(workspace: Workspace, stack: str) -> bool:
    """Return True if the sandbox's state has the stack."""
    project, stack_name = project_settings(workspace.project).get("name"), stack.rsplit("/", 1)[-1]
    states = workspace.backend / ".pulumi" / "stacks" / str(project)
    return any((states / f"{stack_name}{ending}").is_file() for ending in (".json", ".json.gz"))


def file_without_stack(workspace: Workspace, stack: str) -> Path | None:
    """Return the stack's file if it exists and the sandbox's state does not have the stack, else None."""
    file = stack_file(workspace, stack)
    project_has_name = isinstance(project_settings(workspace.project).get("name"), str)
    return file if project_has_name and file.is_file() and not in_state(workspace, stack) else None


def create_if_missing(
    workspace: Workspace, engine: Engine, stack: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Run `pulumi stack init` if it is needed. The command that follows reports any error."""
    file = file_without_stack(workspace, stack)
    if file is None:
        return
    flags = ("--no-select", "--non-interactive", "--cwd", str(workspace.stack_files))
    result = run_engine(engine, environment, "stack", "init", stack, *flags)
    if result.returncode == 0:
        say(f"created the stack {stack} in the sandbox, from {file.name}")
    elif (
        file_without_stack(workspace, stack) is not None
    ):  # Otherwise another command created the stack in the meantime.
        message = syntax_error(file) or result.stderr.strip()
        say(f"the stack {stack} cannot be created from {file.name}:\n{message}")


def selected(engine: Engine, environment: Mapping[str, str], *flags: str) -> str | None:
    """Return the selected stack, if there is one."""
    result = run_engine(engine, environment, "stack", "--show-name", "--non-interactive", *flags)
    return (result.stdout.strip() or None) if result.returncode == 0 else None


def write_project_copy(workspace: Workspace) -> bool:
    """Write a project file next to the copies of stack files. Return False without a project."""
    name = project_settings(workspace.project).get("name")
    if isinstance(name, str):
        write_whole(workspace.stack_files / PROJECT_FILES[0], json.dumps({"name": name, "runtime": "python"}))
    return isinstance(name, str)


def copy_for_engine(workspace: Workspace, stack: str, file: Path) -> tuple[Path, EngineCopy]:
    """Write the copy of a stack file that the engine may change."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    copy = engine_copy(text)
    path = workspace.stack_files / f"Pulumi.{stack.rsplit('/', 1)[-1]}.yaml"
    write_whole(path, copy.text)
    return path, copy


def check_writable(file: Path, command: str) -> None:
    """Raise EngineError if the engine would lose the encryption of a stack file that it changes."""
    if file.is_file() and (encrypted_by := engine_copy(file.read_text(encoding="utf-8")).encrypted_by):
        raise EngineError(
            f"{file.name}: the sandbox does not change this file, because real deployments use it\n"
            f"  got: a file whose secrets are encrypted by {encrypted_by}\n"
            "  expected: a file without secrets, or one that the sandbox's passphrase decrypts\n"
            f"  hint: edit the file, or run pulumi {command} with the backend of the real stack"
        )


def print_likely_cause(workspace: Workspace, stack: str, say: Callable[[str], None]) -> None:
    """Print the likely cause of a failed command, for errors that the engine reports without details."""
    file = stack_file(workspace, stack)
    if in_state(workspace, stack):
        if problem := syntax_error(file):
            say(problem)
    elif not file.is_file():
        stacks_with_file = sorted(
            path.stem.removeprefix("Pulumi.") for path in file.parent.glob(f"Pulumi.?*{file.suffix}") if path != file
        )
        similar = closest(stack, stacks_with_file)
        hint = (
            f"did you mean {similar}?"
            if similar
            else f"run pulumi-sandbox stack init {stack}, or create an empty {file.name}"
        )
        expected = f"\n  expected: {', '.join(stacks_with_file)}" if stacks_with_file else ""
        say(f"{stack}: there is no {file.name} and no such stack{expected}\n  hint: {hint}")


def run_engine(engine: Engine, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the engine's output for another command in the same environment."""
    return subprocess.run(
        [engine.executable, *arguments],
        env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def syntax_error(file: Path) -> str:
    """Return where a stack file is not YAML, or an empty text. The engine names neither the file nor the right line."""
    try:
        yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return yaml_error(file, error)
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return ""
    return ""


PASSPHRASE, PASSPHRASE_FILE = "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"
OWN_PASSPHRASE = "sandbox"  # noqa: S105 - it guards nothing, and the docs name it
# A salt for this passphrase, and the value `emulated-by-sandbox-secret` that this salt and passphrase encrypt.
SALT = "v1:rdHK0bDVB20=:v1:gdTHUdW6eJ3QWI3M:JFlRIlEH/xYCzIC9jgN12XBnZxkIIw=="
_PLACEHOLDER = "v1:jGjR0IBSui/M1xdq:N9KcdniTedE6FJUtyVItwaQ7Zk8Ll5yTNaC6m3bsHFTxjpKeqQ398jgB"
# The encryption settings of a stack file (sdk/go/common/workspace/project.go, ProjectStack).
_SETTINGS = ("secretsprovider", "encryptedkey", "encryptionsalt")
_TEXT = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):
    """Reads 18:00 as text, as the engine does, unlike YAML 1.1."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _TEXT if tag.endswith((":int", ":float")) and ":" in value else tag


@dataclass(frozen=True)
class EngineCopy:
    """The text of a stack file for the engine."""

    text: str
    passphrase: str
    encrypted_by: str = ""
    """What encrypts the secrets of the real file, if the sandbox cannot decrypt them."""
    placeholders: tuple[str, ...] = ()
    """The keys of these secrets, which are placeholders in the copy."""


def passphrases() -> Iterator[str]:
    """Yield the passphrase of the environment, if any, and that of the sandbox."""
    if (named := os.environ.get(PASSPHRASE)) is not None:
        yield named
    elif file := os.environ.get(PASSPHRASE_FILE):
        with contextlib.suppress(OSError, ValueError):
            yield Path(file).read_text().strip()
    yield OWN_PASSPHRASE


def engine_copy(text: str) -> EngineCopy:
    """Return the stack file for the engine. A file that is not YAML stays as it is, and the engine reports that."""
    try:
        root = yaml.compose(text, _Loader)
        settings = _fields(root)
        secrets = list(_secrets(settings.get("config"), ""))
    except (yaml.YAMLError, RecursionError):
        return EngineCopy(text, OWN_PASSPHRASE)
    if root is not None and not isinstance(root, yaml.MappingNode):
        return EngineCopy(text, OWN_PASSPHRASE)
    found = {name: str(settings[name].value or "") for name in _SETTINGS if name in settings}
    provider, salt = found.get("secretsprovider", ""), found.get("encryptionsalt", "")
    is_passphrase = provider in ("", "passphrase", "default") and not found.get("encryptedkey")
    if is_passphrase and salt:
        for passphrase in passphrases():
            if (salt, passphrase) == (SALT, OWN_PASSPHRASE) or opens(salt, passphrase):
                return EngineCopy(text, passphrase)
    if not is_passphrase:
        encrypted_by = provider.partition(":")[0] or "another secrets provider"
    else:
        encrypted_by = "another passphrase" if salt else "the Pulumi service" if secrets else ""
    fields = [pair for pair in (root.value if root else ()) if pair[0].value not in _SETTINGS]
    fields.append((yaml.ScalarNode(_TEXT, "encryptionsalt"), yaml.ScalarNode(_TEXT, SALT)))
    for _, node in secrets:
        node.tag, node.value = _TEXT, _PLACEHOLDER
    # A scalar keeps its text, as YAML has several readings.
    copy = yaml.serialize(
        yaml.MappingNode("tag:yaml.org,2002:map", fields), Dumper=yaml.SafeDumper, allow_unicode=True, width=10**6
    )
    return EngineCopy(copy, OWN_PASSPHRASE, encrypted_by, tuple(dict.fromkeys(key for key, _ in secrets)))


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _secrets(node: yaml.Node | None, key: str) -> Iterator[tuple[str, yaml.Node]]:
    """Yield each encrypted value with the key of the configuration that has it."""
    fields = _fields(node)
    if list(fields) == ["secure"] and isinstance(fields["secure"], yaml.ScalarNode):
        yield key, fields["secure"]
        return
    for name, inner in fields.items():
        yield from _secrets(inner, key or name)
    for inner in node.value if isinstance(node, yaml.SequenceNode) else ():
        yield from _secrets(inner, key)
