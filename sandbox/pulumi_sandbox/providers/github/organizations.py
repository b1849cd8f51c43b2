"""Read `github:` of sandbox.yaml: plans of organizations, Apps, their installations, and the latest runner."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpu_catalog import data_files

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.sandbox_file import SettingsError, refuse_unknown

FREE, TEAM, ENTERPRISE = PLANS = ("free", "team", "enterprise")
DEFAULT_PLAN = TEAM
LEVELS = ("read", "write")
# The permissions of an App that sandbox.yaml does not list.
DEFAULT_PERMISSIONS = {"organization_self_hosted_runners": "write", "administration": "write", "metadata": "read"}


@dataclass(frozen=True)
class Installation:
    """What sandbox.yaml says of one installation of an App."""

    account: str = ""
    """The organization; empty for the owner of the App."""
    suspended: bool = False
    permissions: Mapping[str, str] | None = None
    """What the organization accepted; None for all permissions of the App."""


@dataclass(frozen=True)
class Release:
    """The latest release of GitHub's runner."""

    version: str
    published: str
    """A day, such as 2026-10-07."""


@dataclass(frozen=True)
class Organizations:
    """The plans by a glob over the organization's name, and the rest by the number of the App or installation."""

    plans: Mapping[str, str] = field(default_factory=dict)
    apps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    installations: Mapping[str, Installation] = field(default_factory=dict)
    runner: Release = field(default_factory=lambda: newest_release())

    @classmethod
    def read(cls, file: Path | None) -> Organizations:
        """Read the file. Raise SettingsError if an entry is not valid."""
        entry = sandbox_file.read(file).get("github") or {}
        name = file.name if file else "sandbox.yaml"
        plans, apps, owners, installations, runner = (
            _map(name, f"github.{key}", entry.get(key))
            for key in ("plans", "apps", "owners", "installations", "runnerRelease")
        )
        for owner, plan in plans.items():
            _one_of(name, f"github.plans.{owner}", plan, PLANS)
        for app, permissions in apps.items():
            _permissions(name, f"github.apps.{app}", permissions)
        for app, owner in owners.items():
            _text(name, f"github.owners.{app}", owner)
        of_number = {number: _installation(name, f"github.installations.{number}", each)
                     for number, each in installations.items()}  # fmt: skip
        return cls(plans, apps, owners, of_number, _release(name, runner) if runner else newest_release())

    def plan(self, owner: str) -> str:
        return next(
            (plan for glob, plan in self.plans.items() if fnmatchcase(owner.lower(), glob.lower())), DEFAULT_PLAN
        )

    def lacks(self, app: str, permission: str, level: str = "write") -> bool:
        """Return True if a listed App does not have this permission. For an App not in the list, return False."""
        return app in self.apps and self.apps[app].get(permission) not in (level, "write")


def newest_release() -> Release:
    """Return the newest release in the catalog."""
    row = max(data_files.rows("runners"), key=lambda each: str(each["released"]))
    return Release(str(row["version"]), str(row["released"]))


def acting_app(config: Mapping[str, Any]) -> str:
    """Return the id of the App that a provider acts as, or an empty string if it acts as the owner of a token."""
    app_auth = config.get("appAuth")
    if isinstance(app_auth, str) and app_auth:
        app_auth = json.loads(app_auth)
    return str(app_auth.get("id") or "") if isinstance(app_auth, Mapping) else ""


def _installation(file: str, path: str, value: Any) -> Installation:
    entry = _map(file, path, value)
    refuse_unknown(file, f"{path}.", entry, ("account", "suspended", "permissions"))
    suspended, permissions = entry.get("suspended", False), entry.get("permissions")
    _text(file, f"{path}.account", entry.get("account", ""))
    if not isinstance(suspended, bool):
        raise SettingsError(f"{file}: {path}.suspended: wrong type\n  got: {suspended}\n  expected: true or false")
    if permissions is not None:
        permissions = _permissions(file, f"{path}.permissions", permissions)
    return Installation(entry.get("account", ""), suspended, permissions)


def _release(file: str, entry: dict[str, Any]) -> Release:
    path = "github.runnerRelease"
    refuse_unknown(file, f"{path}.", entry, ("version", "published"))
    version, published = str(entry.get("version", "")), str(entry.get("published", ""))
    try:
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            raise ValueError
        date.fromisoformat(published)
    except ValueError:
        expected = '{version: "2.338.0", published: 2026-10-07}'
        raise SettingsError(f"{file}: {path}: unknown value\n  got: {entry}\n  expected: {expected}") from None
    return Release(version, published)


def _permissions(file: str, path: str, value: Any) -> dict[str, str]:
    found = _map(file, path, value)
    for permission, level in found.items():
        _one_of(file, f"{path}.{permission}", level, LEVELS)
    return found


def _text(file: str, path: str, value: Any) -> None:
    if not isinstance(value, str):
        raise SettingsError(f"{file}: {path}: wrong type\n  got: {value}\n  expected: the name of an organization")


def _map(file: str, path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise SettingsError(f"{file}: {path}: wrong type\n  got: {value}\n  expected: a map")
    return {str(key): each for key, each in (value or {}).items()}


def _one_of(file: str, path: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{file}: {path}: unknown value\n  got: {value}\n  expected: {', '.join(allowed)}")
