"""Finds the Pulumi CLI that runs both revisions, and the files of it that an isolated process needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..errors import PreviewError
from ..isolation.limits import Finished, tail
from .digest import Digest

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


# Colours and other terminal control codes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_ERROR_CHARACTERS = 4_000
# `pulumi up` prints every step, then this heading with indented messages, then the totals.
_DIAGNOSTICS = re.compile(r"^Diagnostics:\n((?:[ \t].*(?:\n|\Z)|\n)+)", re.MULTILINE)
# Python prints this when Pulumi's language host ends a program with SIGINT, because a resource has failed.
_INTERRUPTED = re.compile(
    r"^([ \t]*)Traceback \(most recent call last\):\n(?:\1[ \t]+\S[^\n]*\n)+\1KeyboardInterrupt(?:\n|\Z)"
    r"(?:\s*During handling of the above exception, another exception occurred:\n\s*?(?=^[ \t]*Traceback))?",
    re.MULTILINE,
)
# Errors of the C library without a network (gai_strerror(3), strerror(3)).
_OFFLINE = ("Temporary failure in name resolution", "Name or service not known", "Network is unreachable")
_NO_PACKAGE = (
    "  hint: the program runs with the packages of the environment that Pulumi.yaml names (virtualenv), or with those "
    "of gpu-ci if it names none"
)
_NO_NETWORK = "  hint: the program has no network here; --with-network gives it one"


def made_by() -> str:
    """Return the name and version of this program for reports."""
    return f"gpu-ci {metadata.version('gpu-ci')}"


def failure(finished: Finished, root: Path, found: Digest | None = None, *, isolated: bool = True) -> str:
    """Return why a command failed: the limit it exceeded, the engine's errors, or the end of its output.

    Paths are relative to the repository, not below `root`, its temporary copy. For an isolated command that missed the
    network, the last line says how to allow it.
    """
    errors = "\n\n".join(found.errors) if found else ""
    if not errors:
        # `up` prints its errors among its results. An incomplete digest has none.
        printed = _diagnostics(tail(finished.stdout))
        errors = "\n".join(filter(None, ("" if printed.lstrip().startswith("{") else printed, tail(finished.stderr))))
    message = "\n".join(filter(None, (finished.exceeded_limit, _INTERRUPTED.sub("", errors).strip("\n"))))
    text = clean(message.replace(f"{root}/", ""))
    if isolated and "ModuleNotFoundError: " in message:
        text += f"\n{_NO_PACKAGE}"
    return f"{text}\n{_NO_NETWORK}" if isolated and any(sign in message for sign in _OFFLINE) else text


def _diagnostics(printed: str) -> str:
    """Return the errors in the output of `up`, without the steps before them, or the whole output without errors."""
    found = _DIAGNOSTICS.search(printed)
    return textwrap.dedent(found[1]).strip() if found else printed


def clean(text: str) -> str:
    """Return the beginning and the end of a text, without escape codes."""
    plain = "".join(sign for sign in _ESCAPES.sub("", text) if sign in "\n\t" or sign.isprintable()).strip()
    if len(plain) <= _ERROR_CHARACTERS:
        return plain
    half = _ERROR_CHARACTERS // 2
    return f"{plain[:half]}\n[… {len(plain) - 2 * half:,} characters …]\n{plain[-half:]}"
