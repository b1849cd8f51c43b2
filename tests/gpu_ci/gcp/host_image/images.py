"""The methods of the Compute Engine API for images, which the sandbox does not have. An image has no content."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.compute.instances_api import Instances
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.compute.requests import Json, Request
from pulumi_sandbox.providers.gcp.compute.server import ComputeApi
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE, OFF, fingerprint
from pulumi_sandbox.providers.gcp.names import NAME_PATTERN, absolute, everywhere, in_zone, last, part, self_link
from pulumi_sandbox.providers.gcp.permissions import Needs
from pulumi_sandbox.world.store import Exists, Record

IMAGE = "gcp:compute/image:Image"
# Google Cloud documentation "Create custom images": minutes for a real disk.
CREATION_SEC = 0.2


def of_image(project: str, body: Mapping[str, Any]) -> Needs:
    """Yield what an image of a disk needs (cloud.google.com/compute/docs/images/create-custom, "Required roles")."""
    image = f"projects/{project}/global/images/{body.get('name')}"
    yield "compute.images.create", image
    if body.get("labels"):
        yield "compute.images.setLabels", image
    if disk := body.get("sourceDisk"):
        yield "compute.disks.useReadOnly", absolute(str(disk), project)


class Images:
    """The methods of the API for images. An image's source is the boot disk of a VM, which has the VM's name."""

    def __init__(self, instances: Instances) -> None:
        self.world, self.machines, self.operations = instances.world, instances.machines, instances.operations
        self.templates = instances.templates

    def methods(self) -> dict[str, Callable[..., Json]]:
        return {
            "images.delete": self.delete,
            "images.get": self.get,
            "images.insert": self.insert,
            "images.list": self.listed,
            "images.setLabels": self.set_labels,
            "instanceTemplates.aggregatedList": self.all_templates,
            "globalOperations.get": lambda request, name: self.operations.found(request, "", name),
        }

    def insert(self, request: Request) -> Json:
        project, body = request.project, request.body
        request.permit(of_image(project, body))
        name = str(body.get("name", ""))
        if not re.fullmatch(NAME_PATTERN, name):
            raise errors.invalid("resource.name", name, f"Must be a match of regex '(?:{NAME_PATTERN})'")
        disk = absolute(str(body.get("sourceDisk", "")), project)
        machine = self.world.get(INSTANCE, in_zone(project, part(disk, "zones"), "instances", last(disk)))
        if machine is None:
            raise errors.not_found(disk)
        path = everywhere(project, "images", name)
        # Google Cloud documentation "Create custom images": the machine of the disk must be stopped, or the request has
        # forceCreate. The message is that of a disk in use (github.com/hashicorp/packer/issues/2467).
        if self.machines.instance_json(machine)["status"] not in OFF:
            text = f"The disk resource '{disk}' is already being used by '{machine.id}'"
            raise errors.GoogleError(400, "resourceInUseByAnotherResource", text)
        if fault := self.world.take_fault("refuse", IMAGE, name, id=path):
            raise errors.GoogleError(400, "invalid", fault.message or "The request was refused.")
        outputs = {
            **body,
            "kind": "compute#image",
            "id": number(),
            "creationTimestamp": now(),
            "status": "READY",
            "sourceType": "RAW",
            "selfLink": self_link(path),
        }
        try:
            self.world.insert(Record(IMAGE, path, name, "", body, outputs, "api"))
        except Exists:
            raise errors.already_exists(path) from None
        return self.operations.add(project, "", "insert", path, sec=CREATION_SEC)

    def get(self, request: Request, name: str) -> Json:
        return image_json(self._record(request.project, name))

    def listed(self, request: Request) -> Json:
        rows = [image_json(row) for row in self.world.find(IMAGE) if part(row.id, "projects") == request.project]
        return request.listed("imageList", "global/images", rows)

    def delete(self, request: Request, name: str) -> Json:
        record = self._record(request.project, name)
        self.world.delete(IMAGE, record.id)
        return self.operations.add(request.project, "", "delete", record.id)

    def set_labels(self, request: Request, name: str) -> Json:
        record = self._record(request.project, name)
        if request.body.get("labelFingerprint") != fingerprint(record.outputs.get("labels") or {}):
            # Discovery document compute v1, GlobalSetLabelsRequest.labelFingerprint: error 412 conditionNotMet.
            text = "Labels fingerprint either invalid or resource labels changed"
            raise errors.GoogleError(412, "conditionNotMet", text)
        self.world.update(IMAGE, record.id, outputs={**record.outputs, "labels": request.body.get("labels") or {}})
        return self.operations.add(request.project, "", "setLabels", record.id)

    def all_templates(self, request: Request) -> Json:
        scopes: Json = {}
        for path in [row.id for row in self.world.find(types.REGION_TEMPLATE)]:
            if part(path, "projects") == request.project:
                region = part(path, "regions")
                rows = scopes.setdefault(f"regions/{region}", {"instanceTemplates": []})["instanceTemplates"]
                rows.append(self.templates.get(request, region, last(path)))
        return request.list_response("instanceTemplateAggregatedList", "aggregated/instanceTemplates", scopes)

    def _record(self, project: str, name: str) -> Record:
        path = everywhere(project, "images", name)
        record = self.world.get(IMAGE, path)
        if record is None:
            raise errors.not_found(path)
        return record


def image_json(record: Record) -> Json:
    return {**record.outputs, "labelFingerprint": fingerprint(record.outputs.get("labels") or {})}


def with_images(init: Callable[..., None]) -> Callable[..., None]:
    """Return the `__init__` of a ComputeApi that has the methods too."""

    def complete(self: ComputeApi, instances: Instances, *rest: Any, **named: Any) -> None:
        init(self, instances, *rest, **named)
        self.methods |= Images(instances).methods()

    return complete
