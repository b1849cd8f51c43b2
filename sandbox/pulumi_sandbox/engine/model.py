"""Data types of a Pulumi CLI (the engine), and functions that read its version and write its files.

A *source* is a way to get the CLI, such as PATH or Pulumi's archive. locate.py lists the sources.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# The newest version of the Go module pkg/v3 that can be built from published modules. The archive that is
# downloaded has this version too, so the tests run with it alone. Older versions are refused; newer ones get a warning.
VERSION = "3.259.0"
HOST = "pulumi-language-python"
# The programs of Pulumi's archives. Their folder may also hold files of the user.
PROGRAM_FILES = re.compile(r"pulumi(-(language|resource-pulumi|analyzer-policy)(-[a-z0-9-]+)?|-watch)?")


class EngineError(Exception):
    """No source provided a Pulumi CLI. The text lists the sources that were tried."""


class SourceError(Exception):
    """One source of a CLI cannot be used."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI that can be used."""

    folder: Path
    """The folder of the CLI and its language hosts, with symbolic links resolved."""
    version: str
    source: str

    @property
    def executable(self) -> Path:
        return self.folder / "pulumi"

    @property
    def files(self) -> list[Path]:
        """The CLI and the programs it starts from its own folder. An isolated process sees only these files of it."""
        return sorted(file for file in self.folder.iterdir() if PROGRAM_FILES.fullmatch(file.name) and file.is_file())

    @property
    def has_official_host(self) -> bool:
        """True if Pulumi's own Python language host runs the programs. A built CLI uses the host of pulumi_sandbox."""
        return self.source != "build"

    @property
    def warning(self) -> str:
        """The warning about a version newer than the tested one, or an empty string."""
        version, tested = parse_version(self.version), parse_version(VERSION)
        if version is None or tested is None or version[:2] <= tested[:2]:
            return ""
        return (
            f"Pulumi {self.version} ({self.executable}) is newer than {VERSION}, the version the sandbox is tested "
            "with\n  hint: if a command fails, PULUMI_SANDBOX_ENGINE=official installs and runs that version"
        )


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Parse a version: `v3.259.0-alpha.1+dirty` gives (3, 259, 0). Return None for any other text."""
    numbers = text.strip().removeprefix("v").split("+")[0].split("-")[0].split(".")
    if len(numbers) != 3 or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


def new_enough(text: str) -> bool:
    version, least = parse_version(text), parse_version(VERSION)
    assert least is not None  # noqa: S101 - VERSION above is one
    # Another major version has an incompatible protocol.
    return version is not None and version >= least and version[0] == least[0]


def ask_version(executable: Path) -> str:
    """Return the version that `pulumi version` prints. Raise SourceError if the command fails."""
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        answer = subprocess.run(
            [executable, "version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceError(f"{executable} does not run: {failure_reason(error)}", "repair or remove it") from error
    return answer.stdout.strip().removeprefix("v")


def failure_reason(error: BaseException) -> str:
    """Return one line with the reason why a command failed."""
    if isinstance(error, subprocess.CalledProcessError):
        output = error.stderr or error.stdout or ""
        text = output.decode(errors="replace") if isinstance(output, bytes) else output
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {error.timeout:.0f} s"
    return str(error) or type(error).__name__


def read_json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically. Do nothing if the file has this content and mode already."""
    if path.is_file() and path.read_text() == text and path.stat().st_mode & 0o777 == mode:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# The content is the same for every Python environment that shares the engine folder. With the path of an interpreter in
# it, each of two environments would rewrite the launcher of the other one, and an isolated process sees the folder
# read-only. -P keeps the project's own modules from shadowing the host's.
LAUNCHER = r"""#!/bin/sh
# Starts pulumi_sandbox's language host.
if ! [ -x "${{PULUMI_SANDBOX_PYTHON:-}}" ]; then
  cat >&2 <<END
{host}: PULUMI_SANDBOX_PYTHON: not the Python interpreter of pulumi-sandbox
  got: ${{PULUMI_SANDBOX_PYTHON:-(not set)}}
  expected: the value that \`pulumi-sandbox env\` prints
  hint: eval "\$(pulumi-sandbox env)"
END
  exit 1
fi
PULUMI_SANDBOX_EXECUTOR=${{PULUMI_SANDBOX_EXECUTOR:-${{0%/*}}/pulumi-language-python-exec}} \
  exec "$PULUMI_SANDBOX_PYTHON" -P -m pulumi_sandbox.language_host "$@"
"""


def write_launcher(home: Path) -> None:
    """Write the script that starts our language host, if it is missing or of another version of pulumi-sandbox."""
    write_whole(home / HOST, LAUNCHER.format(host=HOST), 0o755)
