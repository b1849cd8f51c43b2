"""The Google permissions of the build of a host image, listed by the API calls that it makes."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_common import google_permissions

CALLS: Mapping[str, tuple[str, ...]] = {
    # The builder and the check machine have no service account.
    "compute.instances.insert": tuple(
        each for each in google_permissions.INSERT if each != "compute.instances.setServiceAccount"
    ),
    "compute.instances.delete": ("compute.instances.delete",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.instances.getSerialPortOutput": ("compute.instances.getSerialPortOutput",),
    "compute.instances.list": ("compute.instances.list",),
    "compute.instances.stop": ("compute.instances.stop",),
    "compute.instanceTemplates.aggregatedList": ("compute.instanceTemplates.list",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": ("compute.zoneOperations.get",),
    "compute.globalOperations.get": ("compute.globalOperations.get",),
    # cloud.google.com/compute/docs/images/create-custom, "Required roles": for an image of a disk.
    "compute.images.insert": ("compute.images.create", "compute.images.setLabels", "compute.disks.useReadOnly"),
    "compute.images.list": ("compute.images.list",),
    "compute.images.setLabels": ("compute.images.setLabels",),
    "compute.images.delete": ("compute.images.delete",),
}
"""Permissions in the project of the pipeline."""
