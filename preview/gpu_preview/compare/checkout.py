"""One side of a change: a commit's files, and the engine run over them in a world that is thrown away."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpu_ci.gcp.gate.verdict import VERDICT_KEY

from .. import project_file
from ..diff import stack_secrets
from ..engine.exported_state import ExportedState
from ..engine.program import Engine
from ..environment import venv_clone
from ..environment.packages import Packages, PackagesError
from ..environment.virtualenv_option import run_without_tool
from ..git import repository
from ..isolation import limits
from ..isolation.bubblewrap import Isolation
from ..isolation.limits import Finished, Limits

# What the sandbox's machines say instead of being booted: whether a GPU computes is no question of a preview.
_ASSUMED = {VERDICT_KEY: json.dumps({"verdict": "pass", "summary": "not run: assumed for a preview", "reason": ""})}


class CheckoutError(Exception):
    """A side cannot be prepared; the text says why."""


@dataclass(frozen=True)
class RunContext:
    """What both sides share."""

    scratch: Path
    """Where both sides' code may write."""
    own: Path
    """Where only this program does: what it reads afterwards must not be a link that somebody put there meanwhile."""
    isolated_by: Isolation
    limits: Limits
    engine: Engine
    say: Callable[[str], None]

    @property
    def environment(self) -> dict[str, str]:
        """For every command: ten variables of this process's, and the sandbox's own."""
        common = limits.environment(self.scratch)
        return {
            **common,
            **self.engine.variables(common.get("PATH", os.defpath)),
            "PULUMI_SANDBOX_DIR": str(self.scratch / "world"),
            "PULUMI_SANDBOX_ASSUME": json.dumps(_ASSUMED),
            "PULUMI_DEBUG_COMMANDS": "true",  # without it the engine does not know --event-log
            # The state is written once, at the end: a world that is thrown away needs none of the steps between, and
            # writing them is most of what the engine does in an `up` (sdk/go/common/env/env.go, SkipCheckpoints).
            "PULUMI_EXPERIMENTAL": "true",
            "PULUMI_SKIP_CHECKPOINTS": "true",
        }


@dataclass(frozen=True)
class Checkout:
    """A commit's files, ready to run."""

    name: str
    root: Path
    project: Path
    around: RunContext
    placeholders: dict[str, dict[str, str]] = field(default_factory=dict)
    """What stands for each stack's encrypted values, by their path."""
    installed_with: list[str] = field(default_factory=list)
    """What ran with the network to give it its packages."""

    @cached_property
    def files(self) -> dict[str, Path]:
        """The stack files as the commit has them, by their stack: copies that its code cannot change."""
        return repository.stack_files(self.around.own / self.name)

    def read_files(self) -> None:
        """Copy them, and take the secrets out of those that the engine reads. CheckoutError if it is not their folder.

        Called before any of its code has run: later, any path of it may lead elsewhere.
        """
        if self.project.resolve() != self.project:
            raise CheckoutError(f"{self.project.relative_to(self.root)} is a link, or below one")
        own = self.around.own / self.name
        own.mkdir()
        if project := project_file.path(self.project):
            shutil.copyfile(project, own / project.name)
        for stack, file in repository.stack_files(self.project).items():
            kept = own / file.relative_to(self.project)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, kept)
            self.placeholders[stack] = stack_secrets.open_to_all(file)

    def file(self, stack: str) -> str:
        """Where a stack's file is, relative to the root of the repository."""
        file = self.files[stack].relative_to(self.around.own / self.name)
        return str(self.project.relative_to(self.root) / file)

    def run(
        self,
        *arguments: str,
        name: str,
        isolated_by: Isolation | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """A command behind the walls and within the limits, in the project's folder where no other is named."""
        command = (isolated_by or self.around.isolated_by).wrap(arguments)
        return limits.run(
            command,
            folder=folder or self.project,
            environment=environment or self.around.environment,
            scratch=self.around.own,
            name=f"{self.name}-{name}",
            limits=self.around.limits,
            writes_to=self.around.scratch,
        )

    def sandbox(self, *arguments: str, name: str) -> Finished:
        """A command of Pulumi's, over offline providers."""
        return self.run(sys.executable, "-P", "-m", "pulumi_sandbox", *arguments, name=name)

    def install(self, packages: Packages, command: str, base: Checkout | None = None) -> None:
        """Give it its packages, and have its program run with them. CheckoutError where that fails."""
        self._install(packages, command, base)
        if venv_clone.resolved(self.project) != self.project:
            raise CheckoutError("its installation put a link in the place of the project's folder, or of one above it")
        run_without_tool(self.project, packages.place(self.root))

    def _install(self, packages: Packages, command: str, base: Checkout | None) -> None:
        """Give it the checkout's packages, or its own where its lock is another. CheckoutError where that fails.

        Its own come from a lock that runs no code, and from where those of `base` do, or by the command that somebody
        chose. Both have the network, so they are noted in `installed_with`.
        """
        try:
            if not repository.is_project(self.project):
                return
            packages.refuse_names(self.root)
            if not (why := packages.wants_others(self.root)):
                packages.lend(self.root)
                return
            self.around.say(f"{self.name} needs packages of its own: {why}")
            packages.clear(self.root)
            # A home and a folder that nothing which ran before knows: an installer's settings may lie in both.
            apart = Path(tempfile.mkdtemp(prefix="install-", dir=self.around.scratch))
            environment = packages.variables(self.root, limits.environment(apart))
            if command:
                folder, step = self.project, packages.chosen(command)
            else:
                folder, step = apart, packages.installation(self.root, (base or self).root, apart)
                environment["PIP_CONFIG_FILE"] = os.devnull
            if made := packages.creation(self.root):
                self._prepare("making an environment", made, apart, environment, self.around.isolated_by)
            what = command or "packages by name, as wheels"
            self.installed_with.append(f"{self.name}: {what}")
            self._prepare(
                f"installing: {what[:100]}", step, folder, environment, self.around.isolated_by.with_network()
            )
            packages.finish(self.root)
        except PackagesError as error:
            raise CheckoutError(str(error)) from None

    def _prepare(
        self, text: str, step: Sequence[str], folder: Path, environment: Mapping[str, str], isolated_by: Isolation
    ) -> None:
        self.around.say(f"{self.name}: {text}")
        done = self.run(*step, name="install", isolated_by=isolated_by, folder=folder, environment=environment)
        if done.code or done.broke:
            output = done.broke or (done.error_tail().strip() or limits.tail(done.stdout))[-2000:]
            raise PackagesError(f"its packages cannot be installed: {output}")

    def open_secrets(self, stack: str) -> None:
        """Make the stack, with a placeholder for each value that is encrypted for somebody else."""
        if not (placeholders := self.placeholders[stack]):
            return
        made = self.sandbox("stack", "init", stack, "--no-select", "--non-interactive", name=f"{stack}-init")
        arguments = [word for path, value in placeholders.items() for word in ("--secret", f"{path}={value}")]
        put = self.sandbox("config", "set-all", "--path", "--stack", stack, *arguments, name=f"{stack}-secrets")
        if put.code or put.broke:
            raise CheckoutError(f"its secrets cannot be replaced: {put.broke or put.error_tail() or made.error_tail()}")

    def take_state(self, stack: str, state: ExportedState) -> None:
        """Let the stack begin at what was exported elsewhere. CheckoutError where the engine refuses it."""
        if not self.placeholders[stack]:
            self.sandbox("stack", "init", stack, "--no-select", "--non-interactive", name=f"{stack}-init")
        with tempfile.NamedTemporaryFile("w", dir=self.around.scratch, suffix=".json", encoding="utf-8") as file:
            file.write(state.for_sandbox)
            file.flush()
            taken = self.sandbox("stack", "import", "--stack", stack, "--file", file.name, name=f"{stack}-import")
        if taken.code or taken.broke:
            raise CheckoutError(f"its exported state cannot be taken: {taken.broke or taken.error_tail()}")

    def up(self, stack: str) -> Finished:
        """Bring the stack up."""
        quiet = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress", "--non-interactive")
        return self.sandbox("up", "--stack", stack, *quiet, name=f"{stack}-up")

    def exported(self, stack: str) -> str:
        """The state of a stack that was brought up, as the engine exports it; secrets stay encrypted."""
        return self.sandbox("stack", "export", "--stack", stack, name=f"{stack}-export").stdout.read_text(
            errors="replace"
        )

    def preview(self, stack: str, options: Sequence[str]) -> tuple[Finished, Path]:
        """What would change, as the engine's digest on the standard output, and its events in a file."""
        events = self.around.scratch / f"{self.name}-{stack}.events"
        arguments = [
            "preview",
            "--stack",
            stack,
            "--json",
            "--show-sames",
            "--event-log",
            str(events),
            "--non-interactive",
        ]
        finished = self.sandbox(*arguments, *options, name=f"{stack}-preview")
        return limits.copied(finished, events, self.around.own / events.name)
