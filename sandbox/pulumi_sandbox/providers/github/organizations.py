"""Read `github:` of sandbox.yaml: the plans of organizations, and the permissions of Apps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.sandbox_file import SettingsError

FREE, TEAM, ENTERPRISE = PLANS = ("free", "team", "enterprise")
DEFAULT_PLAN = TEAM
LEVELS = ("read", "write")
# The permissions of an App that sandbox.yaml does not list.
DEFAULT_PERMISSIONS = {"organization_self_hosted_runners": "write", "administration": "write", "metadata": "read"}


@dataclass(frozen=True)
class Organizations:
    """The plans by a glob over the organization's name, and the permissions by the number of the App."""

    plans: Mapping[str, str] = field(default_factory=dict)
    apps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path | None) -> Organizations:
        """Read the file. Raise SettingsError if an entry is not valid."""
        entry = sandbox_file.read(file).get("github") or {}
        name = file.name if file else "sandbox.yaml"
        plans, apps = (_map(name, f"github.{key}", entry.get(key)) for key in ("plans", "apps"))
        for owner, plan in plans.items():
            _one_of(name, f"github.plans.{owner}", plan, PLANS)
        for app, permissions in apps.items():
            for permission, level in _map(name, f"github.apps.{app}", permissions).items():
                _one_of(name, f"github.apps.{app}.{permission}", level, LEVELS)
        return cls(plans, apps)

    def plan(self, owner: str) -> str:
        return next(
            (plan for glob, plan in self.plans.items() if fnmatchcase(owner.lower(), glob.lower())), DEFAULT_PLAN
        )


def _map(file: str, path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise SettingsError(f"{file}: {path}: wrong type\n  got: {value}\n  expected: a map")
    return {str(key): each for key, each in (value or {}).items()}


def _one_of(file: str, path: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{file}: {path}: unknown value\n  got: {value}\n  expected: {', '.join(allowed)}")
