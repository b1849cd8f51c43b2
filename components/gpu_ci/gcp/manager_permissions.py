"""What the runner manager may do at Google: each call of the API that it makes, and the permissions of that call."""

from __future__ import annotations

from collections.abc import Mapping

MACHINES: Mapping[str, tuple[str, ...]] = {
    # cloud.google.com/compute/docs/instances/create-start-instance, "Required permissions": of a machine from a
    # template, in a subnetwork, with a disk of its own, labels, metadata and a service account.
    "compute.instances.insert": (
        "compute.disks.create",
        "compute.instanceTemplates.useReadOnly",
        "compute.instances.create",
        "compute.instances.setLabels",
        "compute.instances.setMetadata",
        "compute.instances.setServiceAccount",
        "compute.subnetworks.use",
    ),
    "compute.instances.delete": ("compute.instances.delete",),
    # cloud.google.com/compute/docs/instances/stop-start-instance, "Required permissions". Start also needs the use of
    # the machine's service account, which has a grant of its own.
    "compute.instances.stop": ("compute.instances.stop",),
    "compute.instances.start": ("compute.instances.start",),
    # cloud.google.com/compute/docs/metadata/setting-custom-metadata, "Required permissions": also the use of the
    # machine's service account, which has a grant of its own.
    "compute.instances.setMetadata": ("compute.instances.setMetadata",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.aggregatedList": ("compute.instances.list",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": ("compute.zoneOperations.get",),
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
}
"""In the project of the machines."""

STATE: Mapping[str, tuple[str, ...]] = {
    "storage.objects.get": ("storage.objects.get",),
    # cloud.google.com/storage/docs/access-control/iam-json: an object that exists is deleted by its replacement.
    "storage.objects.insert": ("storage.objects.create", "storage.objects.delete"),
}
"""In the bucket of its state."""


def permissions(calls: Mapping[str, tuple[str, ...]]) -> list[str]:
    """All of them, each once."""
    return sorted({permission for each in calls.values() for permission in each})
