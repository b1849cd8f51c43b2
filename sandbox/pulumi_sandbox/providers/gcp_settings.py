"""What the gcp provider reads from sandbox.yaml: the guest's settings, and what exists though no stack made it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pulumi_sandbox.providers.sandbox_file import SettingsError, read


@dataclass(frozen=True)
class GuestSettings:
    """What the sandbox's machines have that the image of a real one would bring."""

    path: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    runs: bool = True
    """Whether startup scripts run at all: they do so on this machine, so a project has to say that they may."""


def guest(file: Path, project: Path) -> GuestSettings:
    """The `guest:` entry; folders in it are relative to the project. Without the entry nothing is run."""
    given = read(file).get("guest")
    if given is None:
        return GuestSettings(runs=False)
    if not isinstance(given, dict) or set(given) - {"path", "environment"}:
        raise SettingsError(f"{file.name}: guest: unknown setting\n  got: {given}\n  expected: path, environment")
    path, environment = given.get("path") or [], given.get("environment") or {}
    if not isinstance(path, list) or not isinstance(environment, dict):
        raise SettingsError(
            f"{file.name}: guest: wrong type\n  got: {given}\n"
            "  expected: path a list of folders, environment a map of texts"
        )
    return GuestSettings(
        tuple(os.path.normpath(project.absolute() / str(folder)) for folder in path),
        {str(name): str(value) for name, value in environment.items()},
    )


def existing(file: Path) -> tuple[str, ...]:
    """The globs under `exists: gcp:`, over paths such as projects/*/regions/*/subnetworks/ci."""
    given = read(file).get("exists") or {}
    listed = given.get("gcp") or [] if isinstance(given, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise SettingsError(
            f"{file.name}: exists.gcp: wrong type\n  got: {given}\n"
            "  expected: a list of paths such as projects/*/regions/us-central1/subnetworks/ci"
        )
    return tuple(listed)
