"""Finds the Pulumi CLI that runs both revisions, and the files of it that an isolated process needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import PreviewError

_FIND_SEC = 900  # Building the CLI takes minutes.


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI, as `pulumi-sandbox engine --json` describes it."""

    version: str
    way: str
    """The source of the CLI: `path`, `home`, or a name of the sandbox for a CLI that it installed or built."""
    executable: Path
    files: tuple[Path, ...]
    """The CLI and its language hosts, which are in the same folder."""
    sandbox_clis: Path
    """The folder in which the sandbox keeps the CLIs that it installed or built itself, and notes on them."""
    notes: tuple[Path, ...] = ()
    """The files with these notes."""

    @classmethod
    def find(cls, say: Callable[[str], None]) -> Engine:
        """Find the CLI. If none exists, install or build it with network access. PreviewError if that fails."""
        say("looking for the Pulumi CLI")
        answer = subprocess.run(
            [sys.executable, "-P", "-m", "pulumi_sandbox", "engine", "--json"],
            capture_output=True, text=True, timeout=_FIND_SEC, check=False, stdin=subprocess.DEVNULL,
            # Not in the checkout, where a version manager would read a file of the head to choose the CLI.
            cwd="/",
        )  # fmt: skip
        if answer.returncode:
            raise PreviewError(answer.stderr.strip() or "no Pulumi CLI was found")
        found = json.loads(answer.stdout)
        for line in answer.stderr.splitlines():
            say(line.removeprefix("pulumi-sandbox: "))
        files = tuple(map(Path, found["files"]))
        sandbox_clis, notes = Path(found["folder"]), tuple(map(Path, found["notes"]))
        engine = cls(found["version"], found["way"], Path(found["executable"]), files, sandbox_clis, notes)
        say(f"Pulumi {engine.version}, {engine.executable}")
        if found["shim"]:
            say(
                "this CLI is a version manager's shim: if the shim starts a CLI in a home folder, put the folder of "
                "that CLI first on PATH"
            )
        return engine

    @property
    def readable(self) -> list[Path]:
        """Return the paths that an isolated process needs, without folders chosen by the user, such as a home."""
        return [file for file in (*self.files, *self.notes) if not file.is_symlink()]

    def variables(self, path: str) -> dict[str, str]:
        """Return the variables that make the sandbox use this CLI, regardless of others on `path`."""
        installed = self.way in ("path", "home")
        return {
            "PATH": os.pathsep.join([str(self.executable.parent), path]) if installed else path,
            "PULUMI_SANDBOX_ENGINE": "path" if installed else self.way,
            "PULUMI_SANDBOX_ENGINE_DIR": str(self.sandbox_clis),
        }
