"""One side of a change: a commit's files, and the engine run over them in a world that is thrown away."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import limits, stack_secrets
from .limits import Finished, Limits
from .packages import Packages, PackagesError
from .walls import Walls

# What the sandbox's machines say instead of being booted: whether a GPU computes is no question of a preview.
_ASSUMED = {
    "gpu-smoke/verdict": json.dumps({"verdict": "pass", "summary": "not run: assumed for a preview", "reason": ""})
}


class SideError(Exception):
    """A side cannot be prepared; the text says why."""


@dataclass(frozen=True)
class Surroundings:
    """What both sides share."""

    scratch: Path
    walls: Walls
    limits: Limits
    engine_folder: Path
    say: Callable[[str], None]

    @property
    def environment(self) -> dict[str, str]:
        """For every command: ten variables of this process's, and the sandbox's own."""
        return {
            **limits.environment(self.scratch),
            "PULUMI_SANDBOX_DIR": str(self.scratch / "world"),
            "PULUMI_SANDBOX_ENGINE_DIR": str(self.engine_folder),
            "PULUMI_SANDBOX_ASSUME": json.dumps(_ASSUMED),
            "PULUMI_DEBUG_COMMANDS": "true",  # without it the engine does not know --event-log
        }


@dataclass(frozen=True)
class Side:
    """A commit's files, ready to run."""

    name: str
    root: Path
    project: Path
    around: Surroundings

    def run(self, *words: str, name: str, walls: Walls | None = None) -> Finished:
        """A command in the project's folder, behind the walls and within the limits."""
        command = (walls or self.around.walls).around(words)
        return limits.run(
            command,
            folder=self.project,
            environment=self.around.environment,
            scratch=self.around.scratch,
            name=f"{self.name}-{name}",
            limits=self.around.limits,
        )

    def sandbox(self, *words: str, name: str) -> Finished:
        """A command of Pulumi's, over offline providers."""
        return self.run(sys.executable, "-P", "-m", "pulumi_sandbox", *words, name=name)

    def install(self, packages: Packages, command: str, online: Walls) -> None:
        """Give it its packages: the checkout's, or its own where its lock is another. SideError where that fails."""
        try:
            if not packages.wants_others(self.root):
                packages.lend(self.root)
                return
            steps = [shlex.split(command)] if command else packages.installation(self.root)
            for at, step in enumerate(steps):
                self.around.say(f"{self.name}: {shlex.join(step)[:100]}")
                done = self.run(*step, name=f"install-{at}", walls=online)
                if done.code or done.broke:
                    raise SideError(f"its packages cannot be installed: {done.broke or done.error_tail()[-2000:]}")
            packages.finish(self.root)
        except PackagesError as error:
            raise SideError(str(error)) from None

    def open_secrets(self, stack: str, file: Path) -> None:
        """Make the stack, with a placeholder for each value that is encrypted for somebody else."""
        placeholders = stack_secrets.open_to_all(file)
        if not placeholders:
            return
        made = self.sandbox("stack", "init", stack, "--no-select", "--non-interactive", name=f"{stack}-init")
        words = [word for path, value in placeholders.items() for word in ("--secret", f"{path}={value}")]
        put = self.sandbox("config", "set-all", "--path", "--stack", stack, *words, name=f"{stack}-secrets")
        if put.code or put.broke:
            raise SideError(f"its secrets cannot be replaced: {put.broke or put.error_tail() or made.error_tail()}")

    def up(self, stack: str) -> Finished:
        """Bring the stack up."""
        quiet = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress", "--non-interactive")
        return self.sandbox("up", "--stack", stack, *quiet, name=f"{stack}-up")

    def preview(self, stack: str, packs: Sequence[str]) -> tuple[Finished, Path]:
        """What would change, as the engine's digest on the standard output, and its events in a file."""
        events = self.around.scratch / f"{self.name}-{stack}.events"
        words = ["preview", "--stack", stack, "--json", "--show-sames", "--event-log", str(events), "--non-interactive"]
        words += [word for pack in packs for word in ("--policy-pack", pack)]
        return self.sandbox(*words, name=f"{stack}-preview"), events
