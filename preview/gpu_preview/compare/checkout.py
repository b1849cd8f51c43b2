"""The checkout of one revision, and the commands that run the engine on it in a temporary sandbox."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from gpu_ci.gcp.gate.verdict import VERDICT_KEY

from .. import pulumi_files
from ..diff.value_pairs import joined
from ..diff.values import PLACEHOLDER
from ..engine.program import Engine
from ..environment.packages import Packages
from ..environment.virtualenv import resolved, run_without_tool
from ..errors import PreviewError
from ..git import repository
from ..isolation import files, limits
from ..isolation.bubblewrap import Isolation
from ..isolation.limits import Finished, Limits

# The result that emulated machines report instead of a boot: a preview does not check the GPU.
_ASSUMED = {VERDICT_KEY: json.dumps({"verdict": "pass", "summary": "not run: assumed for a preview", "reason": ""})}
# Files of the emulated cloud state that belong to a single call: the ports of its services, their pending operations,
# and logs.
_NOT_COPIED = ("ports.json", "operations", "logs")
# Folders in which one stack can leave files that the engine and its providers read for the next stack:
# PULUMI_SANDBOX_DIR, HOME and TMPDIR of every command.
_SHARED = ("world", "home", "tmp")


@dataclass(frozen=True)
class RunContext:
    """The folders, limits and engine that both revisions share."""

    scratch: Path
    """The folder that the code of both revisions may write to."""
    own: Path
    """A folder that only this program writes to, so that no revision can replace a file in it by a symbolic link."""
    isolated_by: Isolation
    limits: Limits
    engine: Engine
    say: Callable[[str], None]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command: ten variables of this process, and those of the sandbox."""
        common = limits.environment(self.scratch)
        return {
            **common,
            **self.engine.variables(common.get("PATH", os.defpath)),
            "PULUMI_SANDBOX_DIR": str(self.scratch / "world"),
            "PULUMI_SANDBOX_ASSUME": json.dumps(_ASSUMED),
            "PULUMI_DEBUG_COMMANDS": "true",  # enables --event-log
            # Write the state once, at the end. A temporary sandbox needs no checkpoints, and writing them takes most of
            # the time of an `up` (sdk/go/common/env/env.go, SkipCheckpoints).
            "PULUMI_EXPERIMENTAL": "true",
            "PULUMI_SKIP_CHECKPOINTS": "true",
        }


@dataclass(frozen=True)
class Checkout:
    """A commit's files, ready to run."""

    name: str
    root: Path
    project: Path
    context: RunContext
    placeholders: dict[str, dict[str, str]] = field(default_factory=dict)
    """The placeholders for encrypted values, by stack and path."""
    installed_with: list[str] = field(default_factory=list)
    """The installation commands that ran with network access."""

    @cached_property
    def files(self) -> dict[str, Path]:
        """The stack files of the commit, by stack: copies that its code cannot change."""
        return repository.stack_files(self.context.own / self.name)

    def read_files(self) -> None:
        """Copy the stack files, and remove the secrets from those that the engine reads.

        Call it before any code of the revision runs: that code can replace any path by a symbolic link.

        Raises:
            PreviewError: the folder of the project is a symbolic link or below one.
        """
        if resolved(self.project) != self.project:
            raise PreviewError(f"{self.project.relative_to(self.root)} is a symbolic link, or below one")
        own = self.context.own / self.name
        own.mkdir()
        if project := pulumi_files.path(self.project):
            shutil.copyfile(project, own / project.name)
        for stack, file in repository.stack_files(self.project).items():
            copy = own / file.relative_to(self.project)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            self.placeholders[stack] = replace_secrets(file)

    def file(self, stack: str) -> str:
        """Return the path of a stack file, relative to the root of the repository."""
        file = self.files[stack].relative_to(self.context.own / self.name)
        return str(self.project.relative_to(self.root) / file)

    def run(
        self,
        *arguments: str,
        name: str,
        isolated_by: Isolation | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a command in isolation and within the limits. The default folder is that of the project."""
        command = (isolated_by or self.context.isolated_by).wrap(arguments)
        return limits.run(
            command,
            folder=folder or self.project,
            environment=environment or self.context.environment,
            scratch=self.context.own,
            name=f"{self.name}-{name}",
            limits=self.context.limits,
            writes_to=self.context.scratch,
        )

    def sandbox(self, *arguments: str, name: str) -> Finished:
        """Run a Pulumi command with the offline providers of the sandbox."""
        return self.run(sys.executable, "-P", "-m", "pulumi_sandbox", *arguments, name=name)

    def install(self, packages: Packages, command: str, base: Checkout | None = None) -> None:
        """Use the packages of the checkout, or install other packages if the lock file of the revision differs.

        `command` installs the other packages. Without a command, they are installed from the lock file, as wheels from
        the package index of `base`. Both ways use the network, so `installed_with` lists them.

        Raises:
            PreviewError: the installation fails.
        """
        if repository.is_project(self.project):
            packages.check_environment_names(self.root)
            if reason := packages.why_own_packages(self.root):
                self.context.say(f"{self.name} needs other packages: {reason}")
                self._install_own(packages, command, base or self)
            else:
                packages.provide_environment(self.root)
        if resolved(self.project) != self.project:
            raise PreviewError("the installation replaced the project folder, or a parent, by a symbolic link")
        run_without_tool(self.project, packages.place(self.root))

    def _install_own(self, packages: Packages, command: str, base: Checkout) -> None:
        packages.clear(self.root)
        # HOME and the folder are new: code that ran earlier could have put an installer's settings into old ones.
        empty = Path(tempfile.mkdtemp(prefix="install-", dir=self.context.scratch))
        environment = packages.variables(self.root, limits.environment(empty))
        if command:
            folder, installer = self.project, packages.split_command(command)
        else:
            folder, installer = empty, packages.installation(self.root, base.root, empty)
            environment["PIP_CONFIG_FILE"] = os.devnull
        description = command or "packages by name, as wheels"
        self.installed_with.append(f"{self.name}: {description}")
        isolation = self.context.isolated_by
        steps = [("installing: " + description[:100], installer, folder, isolation.with_network())]
        if creation := packages.creation(self.root):
            steps.insert(0, ("creating a virtual environment", creation, empty, isolation))
        for text, words, inside, isolated_by in steps:
            self.context.say(f"{self.name}: {text}")
            result = self.run(*words, name="install", isolated_by=isolated_by, folder=inside, environment=environment)
            if result.code or result.exceeded_limit:
                output = (
                    result.exceeded_limit or (limits.tail(result.stderr).strip() or limits.tail(result.stdout))[-2000:]
                )
                raise PreviewError(f"its packages cannot be installed: {output}")
        packages.finish(self.root)

    def set_placeholders(self, stack: str) -> None:
        """Create the stack, and set a placeholder for each encrypted value. Do nothing if no value is encrypted."""
        if not (placeholders := self.placeholders[stack]):
            return
        init = self.sandbox("stack", "init", stack, "--no-select", "--non-interactive", name=f"{stack}-init")
        arguments = [word for path, value in placeholders.items() for word in ("--secret", f"{path}={value}")]
        result = self.sandbox("config", "set-all", "--path", "--stack", stack, *arguments, name=f"{stack}-secrets")
        if result.code or result.exceeded_limit:
            reason = result.exceeded_limit or limits.tail(result.stderr) or limits.tail(init.stderr)
            raise PreviewError(f"its secrets cannot be replaced: {reason}")

    def up(self, stack: str) -> Finished:
        """Run `pulumi up` for the stack."""
        quiet = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress", "--non-interactive")
        return self.sandbox("up", "--stack", stack, *quiet, name=f"{stack}-up")

    def exported(self, stack: str) -> str:
        """Return the exported state of a deployed stack; secrets stay encrypted."""
        return self.sandbox("stack", "export", "--stack", stack, name=f"{stack}-export").stdout.read_text(
            errors="replace"
        )

    def preview(self, stack: str, options: Sequence[str]) -> tuple[Finished, Path]:
        """Run `pulumi preview`. Return the result, with the digest on stdout, and the path of the event log."""
        events = self.context.scratch / f"{self.name}-{stack}.events"
        engine = ("--json", "--show-sames", "--event-log", str(events), "--non-interactive")
        finished = self.sandbox("preview", "--stack", stack, *engine, *options, name=f"{stack}-preview")
        return limits.copied(finished, events, self.context.own / events.name)


@dataclass(frozen=True)
class Snapshot:
    """A copy of the deployed base that code of the head cannot change."""

    scratch: Path
    """The folder that both revisions write to."""
    folder: Path
    """The folder of the copy, which only this program writes to."""

    @classmethod
    def of(cls, scratch: Path, folder: Path) -> Snapshot:
        """Copy the state of the base now.

        Raises:
            PreviewError: the copy fails.
        """
        folder.mkdir()
        try:
            for name in _SHARED:
                if (scratch / name).is_dir():
                    copy(scratch / name, folder / name)
        except OSError as error:
            raise PreviewError(f"the state of the deployed base cannot be saved: {error.strerror or error}") from None
        return cls(scratch, folder)

    def restore(self) -> None:
        """Replace the current state by the copy.

        Raises:
            PreviewError: the current state cannot be removed.
        """
        try:
            self.scratch.chmod(0o700)
            for name in _SHARED:
                _clear(self.scratch / name)
                if (self.folder / name).is_dir():
                    copy(self.folder / name, self.scratch / name)
        except OSError as error:
            raise PreviewError(
                f"the state of the deployed base cannot be restored: {error.strerror or error}"
            ) from None


def _clear(place: Path) -> None:
    if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
        place.unlink()
    elif place.is_dir():
        place.chmod(0o700)
        files.remove(place)


def copy(source: Path, target: Path) -> None:
    """Copy the folders and regular files of a state. Symbolic links and pipes are untrusted and left out.

    Raises:
        FileExistsError: the target exists.
    """

    def ignored_names(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in _NOT_COPIED or not _is_plain(Path(folder) / name)}

    shutil.copytree(source, target, symlinks=True, ignore=ignored_names)


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or path.is_dir())


# The job of a pull request has no key, and needs none: a preview shows only that a value is secret. Different
# ciphertexts get different placeholders, so that a rotated secret is a change.

# bubblewrap accepts 9,000 arguments (bubblewrap.c, MAX_ARGS), and Linux 2 MiB (execve(2)). A secret needs two.
_MAX_SECRETS = 1_000
_MAX_PATH_BYTES = 1_000
# Keys of the encryption of a stack file (pulumi/pulumi v3.259.0, sdk/go/common/workspace/project.go, ProjectStack).
_KEYS = ("secretsprovider", "encryptedkey", "encryptionsalt")


def replace_secrets(file: Path) -> dict[str, str]:
    """Remove the secrets and the encryption settings from a revision's copy of a stack file.

    From a file without secrets, only the lines with encryption settings are removed.

    Returns:
        A placeholder for each secret, by its path.

    Raises:
        PreviewError: the secrets or their paths exceed the limits of one command line.
    """
    try:
        document = pulumi_files.loaded(file)
    except pulumi_files.InvalidStackFileError:
        return {}  # The engine refuses the file with its own message.
    if not isinstance(document, dict):
        return {}
    config = document.get("config")
    found = dict(_secure(config)) if isinstance(config, Mapping) else {}
    if len(found) > _MAX_SECRETS:
        raise PreviewError(f"{file.name}: has {len(found)} secrets\n  expected: at most {_MAX_SECRETS}")
    if (longest := max((len(path.encode()) for path in found), default=0)) > _MAX_PATH_BYTES:
        raise PreviewError(
            f"{file.name}: has a secret under a path of {longest} bytes\n  expected: at most {_MAX_PATH_BYTES}"
        )
    if found:
        document["config"] = _without(config)
        kept = {key: value for key, value in document.items() if key not in _KEYS}
        file.write_text(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True), encoding="utf-8")
    elif any(key in document for key in _KEYS):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith(_KEYS)), encoding="utf-8")
    return found


def _secure(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            digest = hashlib.sha256(str(value["secure"]).encode()).hexdigest()[:8]
            yield path, f"{PLACEHOLDER}-{digest}"
            return
        for key, one in value.items():
            # The first part of a path is the unchanged key, with its colon.
            yield from _secure(one, joined(path, key) if path else str(key))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _secure(one, joined(path, at))


def _without(value: Any) -> Any:
    """Return the value without encrypted values. In a list, a text replaces them, so that indexes stay the same."""
    if isinstance(value, Mapping):
        return {
            key: _without(one)
            for key, one in value.items()
            if not (isinstance(one, Mapping) and set(one) == {"secure"})
        }
    if isinstance(value, list):
        return [PLACEHOLDER if isinstance(one, Mapping) and set(one) == {"secure"} else _without(one) for one in value]
    return value
