"""Emulate the instance methods of the Compute Engine API: VMs are stored in the emulated state and really boot."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers.gcp import errors
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.operations import Operations
from pulumi_sandbox.providers.gcp.compute.requests import Json, Request
from pulumi_sandbox.providers.gcp.compute.templates import Templates
from pulumi_sandbox.providers.gcp.compute.vm_store import (
    ATTRIBUTES,
    INSTANCE,
    OFF,
    SERIAL,
    SERIAL_START,
    VirtualMachines,
    fingerprint,
    is_spot,
)
from pulumi_sandbox.providers.gcp.names import NAME_PATTERN, in_zone, last, part, region_of, relative, self_link
from pulumi_sandbox.providers.gcp.permissions import of_machine
from pulumi_sandbox.providers.gcp.types import ACCOUNT
from pulumi_sandbox.world.store import Fault, Record, World

# The delay before a new account is usable: "IAM is eventually consistent"
# (cloud.google.com/iam/docs/overview#consistency). Real accounts may take a minute
# (hashicorp/terraform-provider-google#15042).
ACCOUNT_SEC = 1.0
# A real aggregated list names every zone, also those without instances. These two zones represent the empty ones.
EMPTY_ZONES = ("europe-west4-a", "us-west1-b")


def merge_patch(base: Any, patch: Any) -> Any:
    """Apply an insert request to its template as a JSON merge patch (RFC 7396).

    Lists, such as metadata items, are replaced whole. Source: documentation "Create a VM from an instance template",
    section on overriding fields.
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


@dataclass
class Instances:
    """The methods of the API for instances."""

    world: World
    machines: VirtualMachines
    operations: Operations
    templates: Templates
    account_exists: Callable[[str, str], bool]
    """Returns True if a project has the service account with this address."""

    def insert(self, request: Request, zone: str) -> Json:
        project, body = request.project, request.body
        name, template = str(body.get("name", "")), request.one("sourceInstanceTemplate")
        if not re.fullmatch(NAME_PATTERN, name):
            raise errors.invalid("resource.name", name, f"Must be a match of regex '(?:{NAME_PATTERN})'")
        properties = self.templates.properties(project, zone, template) if template else {}
        instance = merge_patch(properties, body)
        self._machine_type(project, zone, instance)
        for email in _accounts(instance):
            if not self.account_exists(project, email):
                raise errors.no_account(project, email)
        path = in_zone(project, zone, "instances", name)
        request.permit(of_machine(project, path, instance, template))
        _refuse_labelled_local_disks(instance)
        if self.world.get(INSTANCE, path):
            raise errors.already_exists(path)

        def boot() -> dict[str, str]:
            inputs = {"body": body, "sourceInstanceTemplate": relative(template)}
            return {"targetId": self.machines.boot(project, zone, instance, inputs)}

        return self._boot("insert", path, instance, boot)

    def _boot(self, kind: str, path: str, instance: Json, boot: Callable[[], dict[str, str]]) -> Json:
        """Start an operation that boots a machine, unless its account is too new or a planted fault prevents it."""
        project, zone = part(path, "projects"), part(path, "zones")
        place = {"zone": zone, "id": path}
        if fault := self.world.take_fault("refuse", INSTANCE, last(path), **place):
            raise errors.GoogleError(400, "invalid", fault.message or "The request was refused.")
        slow = self.world.take_fault("slow", INSTANCE, last(path), **place)
        code, error = self._new_account_error(instance) or self._capacity_error(path, instance) or (0, None)
        fields = boot() if error is None else {}
        sec = float(slow.seconds) if slow else 0.0
        return self.operations.add(project, zone, kind, path, error=error, code=code, sec=sec, fields=fields)

    def get(self, request: Request, zone: str, name: str) -> Json:
        return self.machines.instance_json(self._record(request, zone, name))

    def listed(self, request: Request, zone: str) -> Json:
        rows = [row for row in self._all(request.project) if last(row["zone"]) == zone]
        return request.listed("instanceList", f"zones/{zone}/instances", rows)

    def aggregated_list(self, request: Request) -> Json:
        """Return a page with `maxResults` instances of all zones; a zone without instances has a warning instead."""
        instances = self._all(request.project)
        rows, token = request.page_of(instances)
        zones = sorted({last(row["zone"]) for row in instances} | {*EMPTY_ZONES})
        by_zone: dict[str, Json] = {f"zones/{zone}": {} for zone in zones}
        for row in rows:
            by_zone[f"zones/{last(row['zone'])}"].setdefault("instances", []).append(row)
        for scope, scope_rows in by_zone.items():
            if not scope_rows:
                data = [{"key": "scope", "value": scope}]
                text = f"There are no results for scope '{scope}' on this page."
                scope_rows["warning"] = {"code": "NO_RESULTS_ON_PAGE", "message": text, "data": data}
        return request.list_response("instanceAggregatedList", "aggregated/instances", by_zone, token)

    def _all(self, project: str) -> list[Json]:
        found = [record for record in self.world.find(INSTANCE) if part(record.id, "projects") == project]
        return [self.machines.instance_json(record) for record in found]

    def delete(self, request: Request, zone: str, name: str) -> Json:
        record = self._record(request, zone, name)
        self.machines.remove(record)
        return self.operations.add(request.project, zone, "delete", record.id)

    def start(self, request: Request, zone: str, name: str) -> Json:
        """Boot a machine that is off, with the capacity and quota checks of a new machine.

        For a running machine, the operation has no effect.
        """
        record = self._record(request, zone, name)
        instance = self.machines.instance_json(record)
        if instance["status"] == "RUNNING":
            return self.operations.add(request.project, zone, "start", record.id)
        if instance["status"] not in OFF:
            raise errors.not_ready(record.id)

        def boot() -> dict[str, str]:
            self.machines.start(record)
            return {}

        return self._boot("start", record.id, instance, boot)

    def stop(self, request: Request, zone: str, name: str) -> Json:
        """Stop a machine but keep it. For a stopped machine, the operation has no effect."""
        record = self._record(request, zone, name)
        instance = self.machines.instance_json(record)
        if instance["status"] in OFF:
            return self.operations.add(request.project, zone, "stop", record.id)
        if instance["status"] != "RUNNING":
            raise errors.not_ready(record.id)
        return self.machines.stop(record)

    def set_metadata(self, request: Request, zone: str, name: str) -> Json:
        """Replace all of the instance's metadata."""
        record = self._record(request, zone, name)

        def change(outputs: Json) -> None:
            if request.body.get("fingerprint") != fingerprint((outputs.get("metadata") or {}).get("items") or []):
                text = "Supplied fingerprint does not match current metadata fingerprint."
                raise errors.GoogleError(412, "conditionNotMet", text)
            outputs["metadata"] = {"items": request.body.get("items") or []}

        self.machines.update_outputs(record.id, change)
        return self.operations.add(request.project, zone, "setMetadata", record.id)

    def guest_attributes(self, request: Request, zone: str, name: str) -> Json:
        record, query = self._record(request, zone, name), request.one("queryPath")
        if not self.machines.allows_query(record.id):
            raise errors.GoogleError(429, "rateLimitExceeded", "Quota exceeded for guest attribute queries.")
        attributes: dict[str, dict[str, str]] = record.outputs.get(ATTRIBUTES) or {}
        rows = [
            {"namespace": space, "key": attribute, "value": value}
            for space, pairs in attributes.items()
            for attribute, value in pairs.items()
        ]
        space, _, attribute = query.partition("/")
        rows = [row for row in rows if not space or (row["namespace"] == space and attribute in ("", row["key"]))]
        if not rows:
            text = f"The resource '{query}' of type 'Guest Attribute' was not found."
            raise errors.GoogleError(404, "notFound", text)
        return {
            "kind": "compute#guestAttributes",
            "selfLink": self_link(f"{record.id}/getGuestAttributes"),
            "queryPath": query,
            "queryValue": {"items": rows},
        }

    def serial(self, request: Request, zone: str, name: str) -> Json:
        record, start = self._record(request, zone, name), int(request.one("start") or 0)
        status = self.machines.instance_json(record)["status"]
        if status == "STOPPING":
            # GoogleCloudPlatform/compute-image-tools#456 shows this response for a VM that is stopping.
            raise errors.GoogleError(503, "backendError", "TIMEOUT")
        first_position = int(record.outputs.get(SERIAL_START, 0))
        # google/go-tpm-tools#932: the response is empty once the VM is off.
        contents = b"" if status in OFF else str(record.outputs.get(SERIAL, "")).encode()
        end = first_position + len(contents)
        position = min(max(start, first_position), end)
        return {
            "kind": "compute#serialPortOutput",
            "selfLink": self_link(f"{record.id}/serialPort"),
            "contents": contents[position - first_position :].decode(errors="replace"),
            "start": str(position),
            "next": str(end),
        }

    def _record(self, request: Request, zone: str, name: str) -> Record:
        path = in_zone(request.project, zone, "instances", name)
        record = self.world.get(INSTANCE, path)
        if record is None:
            raise errors.not_found(path)
        return record

    def _machine_type(self, project: str, zone: str, instance: Json) -> machine_types.MachineType:
        name = last(str(instance.get("machineType", "")))
        machine_type = machine_types.machine(name)
        if machine_type is None:
            problem = f"Machine type with name '{name}' does not exist in zone '{zone}'."
            link = self_link(in_zone(project, zone, "machineTypes", name))
            raise errors.invalid("resource.machineType", link, problem)
        return machine_type

    def _new_account_error(self, instance: Json) -> tuple[int, Json] | None:
        """Return the error of an insert with a service account too new for Compute Engine to know."""
        for email in _accounts(instance):
            for row in self.world.find(ACCOUNT, email=email):
                age = datetime.now(UTC) - datetime.fromisoformat(row.created)
                if age.total_seconds() < ACCOUNT_SEC:
                    return 400, errors.unknown_account(email)
        return None

    def _capacity_error(self, path: str, instance: Json) -> tuple[int, Json] | None:
        project, zone = part(path, "projects"), part(path, "zones")
        machine_type, (card, count) = self._machine_type(project, zone, instance), attached(instance)
        offer = machine_types.offer_of(machine_type, card)
        if fault := self.world.take_fault("quota", INSTANCE, last(path), zone=zone, id=path):
            spot = is_spot(instance) or instance.get("scheduling", {}).get("provisioningModel") == "FLEX_START"
            metric = machine_types.quota_metric(offer, spot) if offer else "CPUS"
            return 403, fault_error(fault, errors.quota(metric, region_of(zone)))
        if fault := self.world.take_fault("stockout", INSTANCE, last(path), zone=zone, id=path):
            gpu, number = (card, count) if card else (machine_type.accelerator, machine_type.gpus)
            others = machine_types.other_zones(offer, zone)
            attachment = f"{gpu}:{number}" if gpu else ""
            return 503, fault_error(fault, errors.stockout(project, zone, machine_type.name, attachment, others))
        return None


def _accounts(instance: Json) -> list[str]:
    return [str(account.get("email", "default")) for account in instance.get("serviceAccounts", [])]


def _refuse_labelled_local_disks(instance: Json) -> None:
    # Discovery document compute v1, AttachedDiskInitializeParams.labels: "only applicable for persistent disks". An
    # insert with labels on a SCRATCH disk fails, but a template may have them (github.com/taskcluster/taskcluster/
    # issues/6958 and pull/6959). The API's message is not known; this message is the sandbox's.
    for index, disk in enumerate(instance.get("disks") or []):
        labels = disk.get("initializeParams", {}).get("labels")
        if labels and disk.get("type") == "SCRATCH":
            field = f"resource.disks[{index}].initializeParams.labels"
            raise errors.invalid(field, str(labels), "Labels are only applicable for persistent disks.")


def fault_error(fault: Fault, error: Json) -> Json:
    """Return the vendor's error, with the fault's message if it has one."""
    return {**error, "message": fault.message or error["message"]}


def attached(instance: Json) -> tuple[str, int]:
    for row in instance.get("guestAccelerators") or []:
        return last(str(row.get("acceleratorType", ""))), int(row.get("acceleratorCount", 1))
    return "", 0
