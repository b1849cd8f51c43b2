"""Restrict projects by disabled services and organization policies, as sandbox.yaml lists them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.gcp import discovery, errors, types
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.sandbox_file import SettingsError, refuse_unknown
from pulumi_sandbox.world.store import World

Json = dict[str, Any]

KEYS = ("disabledServices", "organizationPolicies")
SHIELDED, IMAGES, PLACES, ATTRIBUTES = (
    "compute.requireShieldedVm",
    "compute.trustedImageProjects",
    "gcp.resourceLocations",
    "compute.disableGuestAttributesAccess",
)
# The type of a constraint's value: on or off, or a list of allowed values.
POLICIES: dict[str, type] = {SHIELDED: bool, IMAGES: list, PLACES: list, ATTRIBUTES: bool}
MORE_INFORMATION = (
    "See https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints for more "
    "information."
)
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
    policies: dict[str, Any] = field(default_factory=dict)
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
        path = "restrictions.gcp.organizationPolicies"
        policies = map_at(name, path, entry.get("organizationPolicies"))
        refuse_unknown(name, f"{path}.", policies, tuple(POLICIES))
        for constraint, value in policies.items():
            if POLICIES[constraint] is list:
                list_at(name, f"{path}.{constraint}", value)
            elif not isinstance(value, bool):
                raise wrong_type(name, f"{path}.{constraint}", value, "true or false")
        return cls(frozenset(services), policies, number, world)

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

    def instance(self, project: str, path: str, instance: Json) -> Iterator[errors.GoogleError]:
        """Yield the errors of policies that deny the insert of an instance."""
        checks: dict[str, Callable[[str, str, Json], Iterator[str]]] = {
            SHIELDED: self._shielded,
            IMAGES: self._images,
            PLACES: self._locations,
        }
        for constraint, check in checks.items():
            if self.policies.get(constraint) not in (None, False):
                for text in check(project, path, instance):
                    yield errors.condition_not_met(text)

    def guest_attributes(self) -> Iterator[errors.GoogleError]:
        # Google Cloud documentation "Set and query guest attributes" (cloud.google.com/compute/docs/metadata/
        # manage-guest-attributes) names the constraint. No Google source has the status and the message. They come
        # from scripts of a live fleet (GitHub, August 2026: "HTTPError 412: Constraint … violated for project N").
        if self.policies.get(ATTRIBUTES):
            yield errors.condition_not_met(f"Constraint constraints/{ATTRIBUTES} violated for project {self.number}.")

    def _shielded(self, project: str, path: str, instance: Json) -> Iterator[str]:
        # The API's message (github.com/hashicorp/packer/issues/7846).
        if not instance.get("shieldedInstanceConfig", {}).get("enableSecureBoot"):
            yield (
                f"Constraint constraints/{SHIELDED} violated for project projects/{project}. Secure Boot is not "
                f"enabled in the 'shielded_instance_config' field. {MORE_INFORMATION}"
            )

    def _images(self, project: str, path: str, instance: Json) -> Iterator[str]:
        # The API's message (cloud.google.com/batch/docs/troubleshooting). The policy does not apply to custom images of
        # the project itself (cloud.google.com/compute/docs/images/restricting-image-access, Limitations).
        allowed = {str(one).removeprefix("is:").removeprefix("projects/") for one in self.policies[IMAGES]} | {project}
        for disk in instance.get("disks") or []:
            image_project = part(str(disk.get("initializeParams", {}).get("sourceImage", "")), "projects")
            if image_project and image_project not in allowed:
                yield (
                    f"Constraint constraints/{IMAGES} violated for project {project}. Use of images from project "
                    f"{image_project} is prohibited."
                )

    def _locations(self, project: str, path: str, instance: Json) -> Iterator[str]:
        # The API's message (github.com/GoogleCloudPlatform/oss-test-infra/pull/2703).
        zone = part(path, "zones")
        if not any(_is_in(zone, str(value).removeprefix("is:")) for value in self.policies[PLACES]):
            yield f"Location ZONE:{zone} violates constraint constraints/{PLACES} on the resource {path}."


def _is_in(zone: str, value: str) -> bool:
    """Return True if a value of gcp.resourceLocations includes the zone.

    The prefix `in:` marks a group of locations. Organization Policy adds the prefix to a region without one. A zone or
    a multi-region such as `us` stays as it is, and includes that location only
    (docs.cloud.google.com/organization-policy/restrict-locations). The sandbox supports only groups named after a
    region or the first word of a region, such as in:us-locations.
    """
    if value.startswith("in:") or re.fullmatch(r"[a-z]+-[a-z]+\d+", value):
        return zone.startswith(f"{value.removeprefix('in:').removesuffix('-locations')}-")
    return zone == value


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
