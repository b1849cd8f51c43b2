"""Emulate the instance methods of the Compute Engine API: VMs are stored in the emulated state and really boot."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.gcp import discovery, errors
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.operations import Json, Operations, number
from pulumi_sandbox.providers.gcp.compute.vm_store import (
    ATTRIBUTES,
    INSTANCE,
    OFF,
    SERIAL,
    SERIAL_START,
    VirtualMachines,
    fingerprint,
)
from pulumi_sandbox.providers.gcp.names import (
    NAME_PATTERN,
    absolute,
    in_zone,
    last,
    part,
    region_of,
    relative,
    self_link,
)
from pulumi_sandbox.providers.gcp.permissions import Needs, of_machine
from pulumi_sandbox.providers.gcp.types import ACCOUNT, REGION_TEMPLATE, TARGETS, TEMPLATE
from pulumi_sandbox.providers.secret_digests import digest_paths, redact, with_known_texts
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Fault, Record, World

# The template fields that the sandbox uses to boot a machine; it only returns the others.
BOOT_FIELDS = frozenset(
    {"guestAccelerators", "machineType", "metadata", "metadataStartupScript", "scheduling", "serviceAccount"}
)
CANNOT_BOOT = (
    "the sandbox stores secrets as digests, so it cannot boot a machine from a template with secret inputs\n"
    "  got: {} as secret\n  hint: a real cloud can boot the machine (docs/how-it-works/sandbox.md)"
)


# The delay before a new account is usable: "IAM is eventually consistent"
# (cloud.google.com/iam/docs/overview#consistency). Real accounts may take a minute
# (hashicorp/terraform-provider-google#15042).
ACCOUNT_SEC = 1.0


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
    account_exists: Callable[[str, str], bool]
    """Returns True if a project has the service account with this address."""

    def insert(
        self,
        project: str,
        zone: str,
        body: Json,
        source_template: str,
        permit: Callable[[Needs], None] = lambda _: None,
    ) -> Json:
        name = str(body.get("name", ""))
        if not re.fullmatch(NAME_PATTERN, name):
            raise errors.invalid("resource.name", name, f"Must be a match of regex '(?:{NAME_PATTERN})'")
        self._check_zone(project, zone)
        properties = self._template(project, zone, source_template)["properties"] if source_template else {}
        instance = merge_patch(properties, body)
        machine_type = self._machine_type(project, zone, instance)
        self._check_account(project, instance)
        path = in_zone(project, zone, "instances", name)
        permit(of_machine(project, path, instance, source_template))
        for refusal in _labelled_local_disks(instance):
            raise refusal
        if self.world.get(INSTANCE, path):
            raise errors.already_exists(path)
        if fault := self.world.take_fault("refuse", INSTANCE, name, zone=zone, id=path):
            raise errors.GoogleError(400, "invalid", fault.message or "The request was refused.")
        slow = self.world.take_fault("slow", INSTANCE, name, zone=zone, id=path)
        delay_sec = float(slow.seconds) if slow else 0.0
        if account_error := self._new_account_error(project, instance):
            return self.operations.add(project, zone, "insert", path, error=account_error, code=400, sec=delay_sec)
        if capacity_error := self._capacity_error(project, zone, path, instance, machine_type):
            code, error = capacity_error
            return self.operations.add(project, zone, "insert", path, error=error, code=code, sec=delay_sec)
        inputs = {"body": body, "sourceInstanceTemplate": relative(source_template)}
        fields = {"targetId": self.machines.boot(project, zone, instance, inputs)}
        return self.operations.add(project, zone, "insert", path, sec=delay_sec, fields=fields)

    def get(self, project: str, zone: str, name: str) -> Json:
        return self.machines.instance_json(self._record(project, zone, name))

    def all(self, project: str, zone: str = "") -> list[Json]:
        found = [record for record in self.world.find(INSTANCE) if part(record.id, "projects") == project]
        return [self.machines.instance_json(record) for record in found if not zone or part(record.id, "zones") == zone]

    def delete(self, project: str, zone: str, name: str) -> Json:
        record = self._record(project, zone, name)
        self.machines.remove(record)
        return self.operations.add(project, zone, "delete", record.id)

    def start(self, project: str, zone: str, name: str) -> Json:
        """Boot a machine that is off, with the capacity and quota checks of a new machine.

        For a running machine, the operation has no effect.
        """
        record = self._record(project, zone, name)
        instance = self.machines.instance_json(record)
        place = {"zone": zone, "id": record.id}
        if instance["status"] not in (*OFF, "RUNNING"):
            raise errors.not_ready(record.id)
        if fault := self.world.take_fault("refuse", INSTANCE, name, **place):
            raise errors.GoogleError(400, "invalid", fault.message or "The request was refused.")
        slow = self.world.take_fault("slow", INSTANCE, name, **place)
        delay_sec = float(slow.seconds) if slow else 0.0
        if instance["status"] == "RUNNING":
            return self.operations.add(project, zone, "start", record.id, sec=delay_sec)
        machine_type = self._machine_type(project, zone, instance)
        if capacity_error := self._capacity_error(project, zone, record.id, instance, machine_type):
            code, error = capacity_error
            return self.operations.add(project, zone, "start", record.id, error=error, code=code, sec=delay_sec)
        self.machines.start(record)
        return self.operations.add(project, zone, "start", record.id, sec=delay_sec)

    def stop(self, project: str, zone: str, name: str, discard_local_ssd: str) -> Json:
        """Stop a machine but keep it. For a stopped machine, the operation has no effect."""
        record = self._record(project, zone, name)
        instance = self.machines.instance_json(record)
        disks = instance.get("disks") or []
        if any(disk.get("type") == "SCRATCH" for disk in disks) and discard_local_ssd not in ("true", "false"):
            raise errors.local_ssd()
        if instance["status"] in OFF:
            return self.operations.add(project, zone, "stop", record.id)
        if instance["status"] != "RUNNING":
            raise errors.not_ready(record.id)
        return self.machines.stop(record)

    def set_metadata(self, project: str, zone: str, name: str, body: Json) -> Json:
        """Replace all of the instance's metadata."""
        record = self._record(project, zone, name)
        rows = body.get("items") or []

        def change(outputs: Json) -> None:
            if body.get("fingerprint") != fingerprint(outputs.get("metadata") or {}):
                text = "Supplied fingerprint does not match current metadata fingerprint."
                raise errors.GoogleError(412, "conditionNotMet", text)
            outputs["metadata"] = {"items": rows}

        self.machines.update_outputs(record.id, change)
        return self.operations.add(project, zone, "setMetadata", record.id)

    def guest_attributes(self, project: str, zone: str, name: str, query: str, key: str) -> Json:
        record = self._record(project, zone, name)
        if not self.machines.allows_query(record.id):
            raise errors.GoogleError(429, "rateLimitExceeded", "Quota exceeded for guest attribute queries.")
        attributes: dict[str, dict[str, str]] = record.outputs.get(ATTRIBUTES) or {}
        rows = [
            {"namespace": space, "key": attribute, "value": value}
            for space, pairs in attributes.items()
            for attribute, value in pairs.items()
        ]
        requested = query or key
        space, _, attribute = requested.partition("/")
        rows = [row for row in rows if not space or (row["namespace"] == space and attribute in ("", row["key"]))]
        if not rows:
            raise errors.GoogleError(
                404, "notFound", f"The resource '{requested}' of type 'Guest Attribute' was not found."
            )
        answer: Json = {"kind": "compute#guestAttributes", "selfLink": self_link(f"{record.id}/getGuestAttributes")}
        if query or not key:
            return answer | {"queryPath": query, "queryValue": {"items": rows}}
        return answer | {"variableKey": key, "variableValue": rows[0]["value"]}

    def serial(self, project: str, zone: str, name: str, start: int) -> Json:
        record = self._record(project, zone, name)
        status = self.machines.instance_json(record)["status"]
        if status == "STOPPING":
            # GoogleCloudPlatform/compute-image-tools#456 shows this response for a VM that is stopping.
            raise errors.GoogleError(503, "backendError", "TIMEOUT")
        first_position = int(record.outputs.get(SERIAL_START, 0))
        # google/go-tpm-tools#932: the response is empty once the VM is off.
        contents = b"" if status in OFF else str(record.outputs.get(SERIAL, "")).encode()
        # A negative start counts from the end (discovery document, getSerialPortOutput).
        end = first_position + len(contents)
        position = min(max(start if start >= 0 else end + start, first_position), end)
        return {
            "kind": "compute#serialPortOutput",
            "selfLink": self_link(f"{record.id}/serialPort"),
            "contents": contents[position - first_position :].decode(errors="replace"),
            "start": str(position),
            "next": str(end),
        }

    def template(self, path: str) -> Json:
        """Return an instance template of the emulated state in the form of the API."""
        record = self._template_record(path)
        return self._template_json(record, self._template_inputs(record))

    def _template_json(self, record: Record, inputs: Json) -> Json:
        path = record.id
        api_fields = {
            "kind": "compute#instanceTemplate",
            "id": str(record.outputs.get("numericId") or number()),
            "creationTimestamp": record.outputs.get("creationTimestamp") or record.created,
            "selfLink": self_link(path),
        }
        if region := part(path, "regions"):
            api_fields["region"] = self_link(f"projects/{part(path, 'projects')}/regions/{region}")
        return api_form(record.type, {**redact(inputs), "name": last(path)}) | api_fields

    def _template_record(self, path: str) -> Record:
        record = self.world.get(REGION_TEMPLATE if "/regions/" in path else TEMPLATE, path)
        if record is None:
            raise errors.not_found(path)
        return record

    def _template_inputs(self, record: Record) -> Json:
        """Return the stored inputs of a template, with the addresses of known service accounts in plain text.

        An account's address is secret if its project is, but the account's id contains the same address.
        """

        def account_emails() -> Iterator[str]:  # read only if an input is secret, because a stack may have hundreds
            yield from (last(account.id) for account in self.world.find(ACCOUNT))

        return with_known_texts(record.inputs, account_emails(), self.world.key)

    def _record(self, project: str, zone: str, name: str) -> Record:
        path = in_zone(project, zone, "instances", name)
        record = self.world.get(INSTANCE, path)
        if record is None:
            raise errors.not_found(path)
        return record

    def _check_zone(self, project: str, zone: str) -> None:
        if not re.fullmatch(r"[a-z]+-[a-z]+\d+-[a-z0-9]+", zone):
            raise errors.not_found(f"projects/{project}/zones/{zone}")

    def _template(self, project: str, zone: str, source: str) -> Json:
        path = absolute(source, project)
        region = part(path, "regions")
        if region and region != region_of(zone):
            raise errors.invalid(
                "sourceInstanceTemplate", source, f"The template is in region {region}, the instance in zone {zone}."
            )
        record = self._template_record(path)
        inputs = self._template_inputs(record)
        if secret := [paths.text(one) for one in digest_paths(inputs) if one[0] in BOOT_FIELDS]:
            raise errors.GoogleError(400, "sandbox", CANNOT_BOOT.format(", ".join(secret)))
        return self._template_json(record, inputs)

    def _machine_type(self, project: str, zone: str, instance: Json) -> machine_types.MachineType:
        name = last(str(instance.get("machineType", "")))
        machine_type = machine_types.machine(name)
        problem = f"Machine type with name '{name}' does not exist in zone '{zone}'."
        if machine_type:
            problem = machine_types.not_in(zone, machine_type, attached(instance)[0])
        if machine_type is None or problem:
            raise errors.invalid(
                "resource.machineType", self_link(in_zone(project, zone, "machineTypes", name)), problem
            )
        return machine_type

    def _check_account(self, project: str, instance: Json) -> None:
        for account in instance.get("serviceAccounts", []):
            email = str(account.get("email", "default"))
            if not self.account_exists(project, email):
                raise errors.no_account(project, email)

    def _new_account_error(self, project: str, instance: Json) -> Json | None:
        """Return the error of an insert with a service account too new for Compute Engine to know."""
        for account in instance.get("serviceAccounts", []):
            email = str(account.get("email", "default"))
            for row in self.world.find(ACCOUNT, email=email):
                age = datetime.now(UTC) - datetime.fromisoformat(row.created)
                if age.total_seconds() < ACCOUNT_SEC:
                    return errors.unknown_account(email)
        return None

    def _capacity_error(
        self, project: str, zone: str, path: str, instance: Json, machine_type: machine_types.MachineType
    ) -> tuple[int, Json] | None:
        offer = machine_types.offer_of(machine_type, attached(instance)[0])
        scheduling = instance.get("scheduling", {})
        spot = bool(scheduling.get("preemptible")) or scheduling.get("provisioningModel") in ("SPOT", "FLEX_START")
        if fault := self.world.take_fault("quota", INSTANCE, last(path), zone=zone, id=path):
            metric = machine_types.quota_metric(offer, spot) if offer else "CPUS"
            return 403, fault_error(fault, errors.quota(metric, region_of(zone)))
        if fault := self.world.take_fault("stockout", INSTANCE, last(path), zone=zone, id=path):
            card, count = attached(instance)
            attachment = (
                f"{card}:{count}"
                if card
                else f"{machine_type.accelerator}:{machine_type.gpus}"
                if machine_type.accelerator
                else ""
            )
            others = errors.other_zones(offer, zone)
            return 503, fault_error(fault, errors.stockout(project, zone, machine_type.name, attachment, others))
        return None


def _labelled_local_disks(instance: Json) -> Iterator[errors.GoogleError]:
    # Discovery document compute v1, AttachedDiskInitializeParams.labels: "only applicable for persistent disks". An
    # insert with labels on a SCRATCH disk fails, but a template may have them (github.com/taskcluster/taskcluster/
    # issues/6958 and pull/6959). The API's message is not known; this message is the sandbox's.
    for index, disk in enumerate(instance.get("disks") or []):
        labels = disk.get("initializeParams", {}).get("labels")
        if labels and disk.get("type") == "SCRATCH":
            field = f"resource.disks[{index}].initializeParams.labels"
            yield errors.invalid(field, str(labels), "Labels are only applicable for persistent disks.")


def fault_error(fault: Fault, error: Json) -> Json:
    """Return the vendor's error, with the fault's message if it has one."""
    return {**error, "message": fault.message or error["message"]}


def attached(instance: Json) -> tuple[str, int]:
    for row in instance.get("guestAccelerators") or []:
        return last(str(row.get("acceleratorType", ""))), int(row.get("acceleratorCount", 1))
    return "", 0


# Fields that are single objects in Pulumi and lists in the API.
WRAPPED = ("serviceAccounts", "autoHealingPolicies")


# -- the body of a request from inputs ---------------------------------------------------------------------------------


def api_form(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the API's insert request."""
    target = TARGETS[token]
    body: dict[str, Any] = {}
    base = body
    for name in target.base:
        base = base.setdefault(name, {})
    _fill(token, inputs, (), base, body)
    return body


def _fill(
    token: str, inputs: dict[str, Any], names: tuple[str, ...], target: dict[str, Any], top: dict[str, Any]
) -> None:
    fields = TARGETS[token].fields
    for key, value in inputs.items():
        if key == "__defaults" or value is None or value is UNKNOWN:
            continue
        path = (*names, key)
        rename = fields.get(".".join(path)) or (key if discovery.field(token, path) else "")
        if path in (("metadata",), ("metadataStartupScript",)):
            pairs = value if isinstance(value, dict) else {"startup-script": value}
            items = target.setdefault("metadata", {}).setdefault("items", [])
            items.extend({"key": name, "value": text} for name, text in sorted(pairs.items()))
        elif rename and not rename.startswith("@"):  # other properties are not of the API
            parts = rename.lstrip("/").split(".")
            parent = top if rename.startswith("/") else target
            for name in parts[:-1]:
                parent = parent.setdefault(name, {})
            value_in_api = _value(token, value, path, top)
            parent[parts[-1]] = [value_in_api] if parts[-1] in WRAPPED else value_in_api


def _value(token: str, value: Any, names: tuple[str, ...], top: dict[str, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_value(token, item, names, top) for item in value]
    if isinstance(value, dict):
        if _is_map(names):
            return {key: inner for key, inner in value.items() if key != "__defaults"}
        fields: dict[str, Any] = {}
        _fill(token, value, names, fields, top)
        return fields
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_map(names: tuple[str, ...]) -> bool:
    return names[-1] in ("labels", "resourceManagerTags", "metadata")
