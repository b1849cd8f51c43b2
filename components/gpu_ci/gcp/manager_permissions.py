"""The Google permissions of the runner manager, listed by the API calls that it makes."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_common import google_permissions

MACHINES: Mapping[str, tuple[str, ...]] = {
    "compute.instances.insert": google_permissions.INSERT,
    "compute.instances.delete": ("compute.instances.delete",),
    # cloud.google.com/compute/docs/instances/stop-start-instance, "Required permissions". Start also requires the
    # permission to use the machine's service account, which is a separate grant.
    "compute.instances.stop": ("compute.instances.stop",),
    "compute.instances.start": ("compute.instances.start",),
    # cloud.google.com/compute/docs/metadata/setting-custom-metadata, "Required permissions". The call also requires the
    # permission to use the machine's service account, which is a separate grant.
    "compute.instances.setMetadata": ("compute.instances.setMetadata",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.aggregatedList": ("compute.instances.list",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": ("compute.zoneOperations.get",),
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
}
"""Permissions in the project of the machines."""

ON_ALL = ("compute.instances.delete", "compute.instances.get")
"""Permissions on machines of any name: the manager also deletes the machines of a pool that the stack no longer has."""

STATE: Mapping[str, tuple[str, ...]] = {
    "storage.objects.get": ("storage.objects.get",),
    # To replace an existing object, the manager also needs the permission to delete objects
    # (cloud.google.com/storage/docs/access-control/iam-json).
    "storage.objects.insert": ("storage.objects.create", "storage.objects.delete"),
}
"""Permissions on the bucket of the manager's state."""
