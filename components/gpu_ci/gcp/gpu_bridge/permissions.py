"""The Google permissions of a bridge, listed by the API calls that its programs make."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_common import google_permissions

CALLS: Mapping[str, tuple[str, ...]] = {
    # Steps start, watch and delete machines as the smoke check does.
    **google_permissions.CALLS,
    # An insert also requires the right to use the machines' service account, which is a separate grant.
    "compute.instances.insert": google_permissions.INSERT,
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
    # For the reaper.
    "cloudbuild.projects.locations.builds.get": ("cloudbuild.builds.get",),
}
"""Permissions of builds in the project of the machines."""

READ: Mapping[str, tuple[str, ...]] = {
    "storage.objects.get": ("storage.objects.get",),
    # gcloud lists the objects of a pattern such as gs://BUCKET/program/*.
    "storage.objects.list": ("storage.objects.list",),
}
"""Permissions of builds on all objects of the bridge's bucket."""

# To replace an existing object also requires the permission to delete it
# (cloud.google.com/storage/docs/access-control/iam-json).
CHANGE: Mapping[str, tuple[str, ...]] = {
    "storage.objects.insert": ("storage.objects.create", "storage.objects.delete"),
    "storage.objects.delete": ("storage.objects.delete",),
}
"""Permissions of builds on the objects below CHANGED. They cannot change the settings or the program."""

# Programs of release 0.1.0 write slots/. Builds may use them until the bucket is deleted.
CHANGED = ("sources/", "slots/", "builds/")
WRITTEN_BY_MACHINES, READ_BY_MACHINES = ("builds/",), ("sources/", "builds/")
"""protocol.py lists the objects. A machine also reads its request, which is below builds/."""
EXPIRING = ("builds/", "sources/", "slots/")
"""The objects that the bucket deletes after a day."""


def below(bucket: str, *prefixes: str) -> str:
    """Return the condition of a grant that is valid for objects with these prefixes only.

    Source: cloud.google.com/iam/docs/conditions-resource-attributes, "Resource name", for Cloud Storage.
    """
    return " || ".join(
        f'resource.name.startsWith("projects/_/buckets/{bucket}/objects/{prefix}")' for prefix in prefixes
    )
