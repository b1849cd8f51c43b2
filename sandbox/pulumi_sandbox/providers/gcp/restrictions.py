"""Disable services of projects, as sandbox.yaml lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.gcp import discovery, errors, types
from pulumi_sandbox.providers.sandbox_file import SettingsError, refuse_unknown
from pulumi_sandbox.world.store import World

KEYS = ("disabledServices",)
COMPUTE = "compute.v1"
ALL = "all"
"""The entry of disabledServices for a new project, in which only the API that enables others is enabled."""
_SERVICE = "gcp:projects/service:Service"
# The discovery documents of types without a schema here, by their module.
_DOCUMENTS = {
    "kms": "cloudkms.v1",
    "storage": "storage.v1",
    "pubsub": "pubsub.v1",
    "cloudscheduler": "cloudscheduler.v1",
}


@dataclass(frozen=True)
class Restrictions:
    """Restrictions of the sandbox's projects; none by default."""

    disabled: frozenset[str] = frozenset()
    """Services that are disabled until a stack enables them, such as compute.googleapis.com."""
    number: str = "0"
    """The project's number, as Google's messages show it."""
    world: World | None = None

    @classmethod
    def read(cls, file: Path | None, number: str, world: World | None = None) -> Restrictions:
        """Read the restrictions from `restrictions: gcp:` of sandbox.yaml.

        Raises:
            SettingsError: The entry is invalid.
        """
        name = file.name if file else "sandbox.yaml"
        entry = map_at(name, "restrictions", sandbox_file.read(file).get("restrictions"))
        entry = map_at(name, "restrictions.gcp", entry.get("gcp"))
        refuse_unknown(name, "restrictions.gcp.", entry, KEYS)
        services = list_at(name, "restrictions.gcp.disabledServices", entry.get("disabledServices") or [])
        return cls(frozenset(services), number, world)

    def service(self, token: str, project: str) -> Iterator[errors.GoogleError]:
        """Yield an error if the API of a resource type is disabled in a project."""
        module = token.split(":")[1].split("/")[0]
        document = types.TARGETS[token].document if token in types.TARGETS else _DOCUMENTS.get(module)
        if document:
            yield from self.document(document, project)

    def document(self, name: str, project: str) -> Iterator[errors.GoogleError]:
        """Yield an error if the API of a discovery document is disabled in a project."""
        host, title = discovery.service(name)
        if self.is_disabled(host, project):
            yield errors.ServiceDisabledError(host, title, self.number)

    def is_disabled(self, host: str, project: str) -> bool:
        """Return True for a disabled service. An empty project stands for any."""
        listed = host in self.disabled or (ALL in self.disabled and host != "serviceusage.googleapis.com")
        return listed and not any(
            row.inputs.get("service") == host and (not project or row.inputs.get("project") in (None, project))
            for row in (self.world.find(_SERVICE) if self.world else ())
        )


def map_at(file: str, path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise wrong_type(file, path, value, "a map")
    return value or {}


def list_at(file: str, path: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise wrong_type(file, path, value, "a list of texts")
    return value


def wrong_type(file: str, path: str, value: Any, expected: str) -> SettingsError:
    return SettingsError(f"{file}: {path}: wrong type\n  got: {json.dumps(value)}\n  expected: {expected}")
