"""Read the `guest:` entry of sandbox.yaml.

A *guest* is what runs inside a VM or container of the sandbox: its startup script, as a process on this computer. The
entry has the PATH and the environment of guests. Without the entry, no guest runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.machines.local_services import NAMES, PLACEHOLDER, PROJECT, SERIAL_PORT
from pulumi_sandbox.providers.sandbox_file import SettingsError, read


@dataclass(frozen=True)
class GuestSettings:
    """The settings of the sandbox's VMs that replace the content of a real VM image."""

    path: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Environment variables with `${name}`, which is replaced by the address of a sandbox service."""
    journal: bool = False
    """True if the output of a startup script goes to the journal only, and not to the serial port."""
    runs: bool = True
    """True if startup scripts run. They run on the local computer, so a project must allow it."""
    assumed: Mapping[str, str] | None = None
    """The guest attributes of every VM (`namespace/key` to value), if startup scripts are assumed done and not run."""


HINT = (
    "hint: add `guest: {}` to sandbox.yaml next to Pulumi.yaml, and what the program needs to its `path` and "
    "`environment`, such as GPU_SMOKE_DEVICE: cpu for gpu-smoke on the CPU"
)
"""The hint if the entry is missing."""
# The folder of a package that is installed with the sandbox.
_PACKAGE = re.compile(r"\$\{package\.(\w+)\}")
ASSUME = "PULUMI_SANDBOX_ASSUME"
"""The environment variable that turns startup scripts off. Its value is a JSON map of guest attributes."""


def guest(file: Path, project: Path) -> GuestSettings:
    """Return the `guest:` entry. Its folders are relative to the project. Without the entry no script runs."""
    if ASSUME in os.environ:
        return GuestSettings(assumed=assumed(os.environ[ASSUME]))
    entry = read(file).get("guest")
    if not isinstance(entry, dict):
        return GuestSettings(runs=False)
    variables = {
        str(name): _PACKAGE.sub(
            _folder_of, _text(file, name, value).replace(f"${{{PROJECT}}}", str(project.absolute()))
        )
        for name, value in (entry.get("environment") or {}).items()
    }
    for name, value in variables.items():
        for placeholder in PLACEHOLDER.findall(value):
            if placeholder not in (*NAMES, SERIAL_PORT):
                problem = f"{file.name}: guest.environment.{name}: no such service\n  got: ${{{placeholder}}}"
                placeholders = ", ".join(f"${{{one}}}" for one in (*NAMES, SERIAL_PORT, PROJECT, "package.NAME"))
                raise SettingsError(f"{problem}\n  expected: {placeholders}")
    return GuestSettings(
        tuple(os.path.normpath(project.absolute() / folder) for folder in entry.get("path") or () if folder),
        {name: value for name, value in variables.items() if not PLACEHOLDER.search(value)},
        {name: value for name, value in variables.items() if PLACEHOLDER.search(value)},
        journal=entry.get("scriptOutput") == "journal",
    )


def _folder_of(placeholder: re.Match[str]) -> str:
    """Return the folder of an installed package. A placeholder without one stays, and is reported."""
    spec = importlib.util.find_spec(placeholder[1])
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else placeholder[0]


def assumed(text: str) -> dict[str, str]:
    """Parse the guest attributes of VMs that do not run. Raise SettingsError if they are not a map."""
    try:
        return {name: str(value) for name, value in json.loads(text or "{}").items()}
    except (AttributeError, ValueError):
        example = '{"namespace/key": "value"}'
        raise SettingsError(f"{ASSUME}: wrong form\n  expected: a map in JSON, such as {example}") from None


def _text(file: Path, name: str, value: Any) -> str:
    """Return a string, or an unquoted integer as a string. The error has no value, because it may be a secret."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise SettingsError(
        f"{file.name}: guest.environment.{name}: wrong type\n  got: {type(value).__name__}\n  expected: a string\n"
        "  hint: put the value in quotes, or remove the entry"
    )
