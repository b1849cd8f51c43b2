"""What sandbox.yaml says of the programs that run here, in machines and in containers: `guest:`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.machines.local_services import NAMES, PLACEHOLDER, PROJECT, SERIAL_PORT
from pulumi_sandbox.providers.sandbox_file import SettingsError, read


@dataclass(frozen=True)
class GuestSettings:
    """What the sandbox's machines have that the image of a real one would bring."""

    path: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Variables with `${name}` in them, which stands for where one of the sandbox's own services is."""
    journal: bool = False
    """Whether a startup script's output goes to the journal alone, and not to the serial port."""
    runs: bool = True
    """Whether startup scripts run at all: they do so on this machine, so a project has to say that they may."""
    assumed: Mapping[str, str] | None = None
    """Where nothing is to run and all of it counts as done: what each machine publishes, `namespace/key` to value."""


ASSUME = "PULUMI_SANDBOX_ASSUME"
"""The variable of the environment by which nothing runs: a JSON map of what machines publish."""


def guest(file: Path, project: Path) -> GuestSettings:
    """The `guest:` entry; folders in it are relative to the project. Without the entry nothing is run."""
    if ASSUME in os.environ:
        return GuestSettings(assumed=assumed(os.environ[ASSUME]))
    given = read(file).get("guest")
    if given is None:
        return GuestSettings(runs=False)
    if not isinstance(given, dict):
        raise wrong_type(file, "guest", given, "a map of path, environment")
    path, environment = given.get("path") or [], given.get("environment") or {}
    output = given.get("scriptOutput", "serial-port")
    if output not in ("serial-port", "journal"):
        problem = f"{file.name}: guest.scriptOutput: unknown value\n  got: {output}"
        raise SettingsError(f"{problem}\n  expected: serial-port or journal")
    if not isinstance(path, list):
        raise wrong_type(file, "guest.path", path, "a list of folders")
    if not isinstance(environment, dict):
        raise wrong_type(file, "guest.environment", environment, "a map of texts")
    variables = {
        str(name): text(file, f"guest.environment.{name}", value).replace(f"${{{PROJECT}}}", str(project.absolute()))
        for name, value in environment.items()
    }
    for name, value in variables.items():
        for wanted in PLACEHOLDER.findall(value):
            if wanted not in (*NAMES, SERIAL_PORT):
                problem = f"{file.name}: guest.environment.{name}: no such service\n  got: ${{{wanted}}}"
                known = ", ".join(f"${{{one}}}" for one in (*NAMES, SERIAL_PORT, PROJECT))
                raise SettingsError(f"{problem}\n  expected: {known}")
    return GuestSettings(
        tuple(
            os.path.normpath(project.absolute() / text(file, f"guest.path[{at}]", folder))
            for at, folder in enumerate(path)
        ),
        {name: value for name, value in variables.items() if not PLACEHOLDER.search(value)},
        {name: value for name, value in variables.items() if PLACEHOLDER.search(value)},
        journal=output == "journal",
    )


def assumed(given: str) -> dict[str, str]:
    """What machines publish that do not run. SettingsError for anything but a map of texts."""
    try:
        found = json.loads(given or "{}")
    except ValueError:
        found = None
    keys = isinstance(found, dict) and all(key.count("/") == 1 and isinstance(found[key], str) for key in found)
    if not keys:
        example = '{"namespace/key": "value"}'
        raise SettingsError(f"{ASSUME}: wrong form\n  expected: a map of texts in JSON, such as {example}")
    return dict(found)


def text(file: Path, path: str, value: Any) -> str:
    """A text, or an integer, which YAML takes for none; of anything else nobody knows what text was meant."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise wrong_type(file, path, value, "a text\n  hint: put it in quotes, or take the entry away")


def wrong_type(file: Path, path: str, value: Any, expected: str) -> SettingsError:
    """Tells the kind of a value only: a guest's environment may hold secrets."""
    kinds = {type(None): "null", bool: "true or false", list: "a list", dict: "a map", str: "a text"}
    got = kinds.get(type(value), f"a {type(value).__name__}")
    return SettingsError(f"{file.name}: {path}: wrong type\n  got: {got}\n  expected: {expected}")
