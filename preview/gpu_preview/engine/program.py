"""The Pulumi CLI for both revisions, and the files of it that an isolated process needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_FIND_SEC = 900  # Building the CLI takes minutes.


class EngineError(Exception):
    """No Pulumi CLI was found or installed. The text lists the attempts."""


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI, as `pulumi-sandbox engine --json` describes it."""

    version: str
    way: str
    """The source of the CLI."""
    executable: Path
    files: tuple[Path, ...]
    """The CLI and its language hosts, which lie beside it."""
    kept: Path
    """The folder in which the sandbox keeps the CLIs that it installed or built itself, and notes on them."""
    notes: tuple[Path, ...] = ()
    """The files of these notes."""

    @classmethod
    def find(cls, say: Callable[[str], None]) -> Engine:
        """Find the CLI; where there is none, install or build it first, with the network. EngineError if that fails."""
        say("looking for the Pulumi CLI")
        asked = subprocess.run(
            [sys.executable, "-P", "-m", "pulumi_sandbox", "engine", "--json"],
            capture_output=True, text=True, timeout=_FIND_SEC, check=False, stdin=subprocess.DEVNULL,
            # Not in the checkout: a version manager would read a file of the head to choose the CLI.
            cwd="/",
        )  # fmt: skip
        if asked.returncode:
            raise EngineError(asked.stderr.strip() or "there is no Pulumi CLI")
        found = json.loads(asked.stdout)
        for line in asked.stderr.splitlines():
            say(line.removeprefix("pulumi-sandbox: "))
        files = tuple(map(Path, found["files"]))
        kept, notes = Path(found["folder"]), tuple(map(Path, found["notes"]))
        made = cls(found["version"], found["way"], Path(found["executable"]), files, kept, notes)
        say(f"Pulumi {made.version}, {made.executable}")
        if found["shim"]:
            say(
                "a version manager's: if what it starts lies in a home, put the folder of the CLI itself on PATH before"
            )
        return made

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
            "PULUMI_SANDBOX_ENGINE_DIR": str(self.kept),
        }
