"""Check rules for Cloud Run worker pools and custom roles that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.discovery import locations
from pulumi_sandbox.providers.gcp.rules.common import labels
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

# Discovery document run v2, workerPools.create, workerPoolId: begins with a letter, does not end with a hyphen, and has
# fewer than 50 characters.
POOL_ID = r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?"
# Discovery document run v2, ResourceRequirements.limits.
LIMITS, CPUS = ("cpu", "memory", "nvidia.com/gpu"), ("1", "2", "4", "6", "8", "1000m", "2000m", "4000m", "8000m")
# Google Cloud documentation "Create and manage custom roles" (docs.cloud.google.com/iam/docs/creating-custom-roles).
ROLE_ID = r"[a-zA-Z0-9_.]{3,64}"
TITLE_BYTES, PERMISSIONS_MOST = 100, 3000
PERMISSION = r"[a-z][a-zA-Z0-9]*\.[a-zA-Z0-9]+\.[a-zA-Z0-9]+"


def worker_pool(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from labels(inputs.get("labels"), "labels")
    name = inputs.get("name")
    if isinstance(name, str) and not re.fullmatch(POOL_ID, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{POOL_ID}$"')
    place = inputs.get("location")
    if isinstance(place, str) and place not in locations("run.v2"):
        yield Problem("location", f"Location '{place}' is not found or access is unauthorized.")
    template = table(inputs.get("template"))
    volumes = {table(row).get("name") for row in rows(template.get("volumes"))}
    for index, row in enumerate(rows(template.get("containers"))):
        container, path = table(row), f"template.containers[{index}]"
        for mount in rows(container.get("volumeMounts")):
            volume_name = table(mount).get("name")
            if isinstance(volume_name, str) and volume_name not in volumes:
                yield Problem(f"{path}.volumeMounts", f"volume_mounts: volume {volume_name} not found.")
        for key, value in table(table(container.get("resources")).get("limits")).items():
            if key not in LIMITS:
                yield Problem(f"{path}.resources.limits", f"Only {', '.join(LIMITS)} are supported, got {key}")
            elif key == "cpu" and isinstance(value, str) and value not in CPUS:
                yield Problem(f"{path}.resources.limits.cpu", f"Invalid value specified for cpu: {value}")


def custom_role(inputs: dict[str, Any]) -> Iterator[Problem]:
    role_id = inputs.get("roleId")
    if isinstance(role_id, str) and not re.fullmatch(ROLE_ID, role_id):
        yield Problem("roleId", f'"roleId" ("{role_id}") doesn\'t match regexp "^{ROLE_ID}$"')
    title = inputs.get("title")
    if isinstance(title, str) and len(title.encode()) > TITLE_BYTES:
        yield Problem("title", f"expected length of title to be in the range (0 - {TITLE_BYTES}), got {len(title)}")
    permissions = rows(inputs.get("permissions"))
    if len(permissions) > PERMISSIONS_MOST:
        yield Problem("permissions", f"a role has at most {PERMISSIONS_MOST} permissions, got {len(permissions)}")
    for one in permissions:
        if isinstance(one, str) and not re.fullmatch(PERMISSION, one):
            yield Problem("permissions", f"Permission {one} is not valid.", "such as compute.instances.list")
