"""A fake Compute Engine in this process: machines, operations, guest attributes. It validates bodies against
the API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from gpu_ci.gcp.gate.compute_api import ApiError, Operation

Body = dict[str, Any]
ACCOUNT, OTHER_ACCOUNT = "manager@ci-project.iam.gserviceaccount.com", "builds@ci-project.iam.gserviceaccount.com"
PROJECT, ZONE = "ci-project", "us-central1-a"
NAME = "l4-template-1a2b3c4"
TEMPLATE = f"projects/{PROJECT}/regions/us-central1/instanceTemplates/{NAME}"
SPOT: Body = {
    "provisioningModel": "SPOT",
    "preemptible": True,
    "automaticRestart": False,
    "onHostMaintenance": "TERMINATE",
    "instanceTerminationAction": "DELETE",
    "maxRunDuration": {"seconds": "21600"},
}
PROPERTIES: Body = {
    "machineType": "g2-standard-8",
    "labels": {"team": "ml", "gpu-ci-pool": "l4"},
    "metadata": {"items": [{"key": "gpu-ci-config", "value": "{}"}]},
    "scheduling": SPOT,
}


@cache
def schemas() -> dict[str, Body]:
    file = resources.files("googleapiclient") / "discovery_cache" / "documents" / "compute.v1.json"
    found: dict[str, Body] = json.loads(file.read_text(encoding="utf-8"))["schemas"]
    return found


def unknown_fields(value: Any, schema: Body, path: str = "") -> list[str]:
    """Return the fields of a body that Google's API description does not have."""
    if "$ref" in schema:
        schema = schemas()[schema["$ref"]]
    if isinstance(value, list):
        return [each for item in value for each in unknown_fields(item, schema.get("items", {}), path)]
    if isinstance(value, dict):
        free = schema.get("additionalProperties")
        found = []
        for key, item in value.items():
            known = schema.get("properties", {}).get(key) or free
            found += unknown_fields(item, known, f"{path}.{key}") if known else [f"{path}.{key}"]
        return found
    types = {"string": str, "boolean": bool, "integer": int, "number": float}
    wrong = not isinstance(value, types[schema["type"]]) or value not in schema.get("enum", [value])
    return [f"{path}={value!r}"] if wrong else []


def missing(what: str) -> ApiError:
    return ApiError("notFound", f"The resource '{what}' was not found", 404)


@dataclass
class FakeCompute:
    """The methods of Google's API that the adapter uses. `errors` are raised by the next call of that name."""

    account: str = ACCOUNT
    user: str = ACCOUNT
    """The account that Google records for the manager's requests."""
    machines: dict[tuple[str, str], Body] = field(default_factory=dict)
    """Machines by zone and name."""
    attributes: dict[str, str] = field(default_factory=dict)
    """The attribute gpu-agent/end of machines by name."""
    keys: dict[str, str] = field(default_factory=dict)
    """The attribute gpu-agent/key of machines by name."""
    ended: dict[str, Operation] = field(default_factory=dict)
    """Operations by name."""
    preemptions: list[Body] = field(default_factory=list)
    inserts: list[Body] = field(default_factory=list)
    """Operations of inserts, with any status."""
    properties: Body = field(default_factory=lambda: PROPERTIES)
    errors: dict[str, ApiError] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, name: str, status: str = "RUNNING", zone: str = ZONE, **changes: Any) -> Body:
        row: Body = {
            "id": str(10**18 + len(self.machines)),
            "name": name,
            "zone": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}",
            "status": status,
            "machineType": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}/machineTypes/g2-standard-8",
            "scheduling": SPOT,
            "labels": {
                "gpu-ci-manager": "staging",
                "gpu-ci-pool": "l4",
                "gpu-ci-job": "0a1b2c3d4e5f",
                "gpu-ci-template": NAME,
            },
            **changes,
        }
        self.machines[zone, name] = row
        return row

    def preempt(self, name: str, at: float, zone: str = ZONE, number: str = "1") -> None:
        self.preemptions.append(
            {
                "name": f"systemevent-{name}",
                "operationType": "compute.instances.preempted",
                "targetId": number,
                "targetLink": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}/instances/{name}",
                "insertTime": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
                "status": "DONE",
            }
        )

    def starts(
        self,
        name: str,
        status: str = "RUNNING",
        zone: str = ZONE,
        kind: str = "instances",
        user: str = ACCOUNT,
        number: str = "1",
    ) -> None:
        self.inserts.append(
            {
                "name": f"operation-{name}",
                "user": user,
                "targetId": number,
                "operationType": "insert",
                "targetLink": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}/{kind}/{name}",
                "insertTime": datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds"),
                "status": status,
            }
        )

    def _called(self, *what: str) -> None:
        self.asked.append(what)
        if error := self.errors.pop(what[0], None):
            raise error

    def template(self, project: str, region: str, name: str) -> Body:
        self._called("template", project, region, name)
        return self.properties

    def insert(self, project: str, zone: str, body: Body, template: str, request_id: str = "") -> Operation:
        self._called("insert", project, zone, body["name"], template, request_id)
        assert unknown_fields(body, {"$ref": "Instance"}) == []
        if f"/regions/{zone.rpartition('-')[0]}/" not in template:
            # A template names a subnetwork of one region, so the instance must be in that region.
            raise ApiError("invalid", f"{template} is of another region than {zone}", 400)
        if (zone, body["name"]) in self.machines:
            raise ApiError("alreadyExists", "The resource already exists", 409)
        made = self.add(body["name"], "STAGING", zone, body=body, labels=body["labels"])
        self.starts(body["name"], "DONE", zone, user=self.user, number=made["id"])
        return Operation(f"operation-{body['name']}", target_id=made["id"], user=self.user)

    def delete(self, project: str, zone: str, name: str) -> str:
        self._called("delete", project, zone, name)
        del self.machines[zone, name]
        return "operation-delete"

    def stop(self, project: str, zone: str, name: str) -> str:
        self._called("stop", project, zone, name)
        self.machines[zone, name]["status"] = "STOPPING"
        return "operation-stop"

    def start(self, project: str, zone: str, name: str, request_id: str) -> str:
        self._called("start", project, zone, name, request_id)
        self.machines[zone, name]["status"] = "STAGING"
        return "operation-start"

    def operation(self, project: str, zone: str, operation: str) -> Operation:
        self._called("operation", project, zone, operation)
        if operation not in self.ended:
            raise missing(operation)
        return self.ended[operation]

    def operations(self, project: str, zone: str, expression: str) -> Iterator[Body]:
        self._called("operations", project, zone, expression)
        kind = expression.split('"')[1]
        found = [each for each in self.preemptions + self.inserts if each["operationType"] == kind]
        if 'status!="DONE"' in expression:
            found = [each for each in found if each["status"] != "DONE"]
        if "targetLink=" in expression:
            found = [each for each in found if f'targetLink="{each["targetLink"]}"' in expression]
        yield from (each for each in found if f"/zones/{zone}/" in each["targetLink"])

    def instance(self, project: str, zone: str, name: str) -> Body:
        self._called("instance", project, zone, name)
        if (zone, name) not in self.machines:
            raise missing(name)
        return self.machines[zone, name]

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[Body]:
        self._called("list", project, expression)
        # Return more than the filter selects, to show that the adapter does not depend on it.
        return [
            {key: row[key] for key in fields if key in row} | self._metadata_keys(row, fields)
            for row in self.machines.values()
        ]

    @staticmethod
    def _metadata_keys(row: Body, fields: Sequence[str]) -> Body:
        """Return the metadata fields that `metadata/items/key` selects."""
        if "metadata/items/key" not in fields or "metadata" not in row:
            return {}
        return {"metadata": {"items": [{"key": each["key"]} for each in row["metadata"].get("items", [])]}}

    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str:
        self._called("set metadata", project, zone, name, fingerprint)
        metadata = self.machines[zone, name]["metadata"]
        if metadata["fingerprint"] != fingerprint:
            text = "Supplied fingerprint does not match current metadata fingerprint."
            raise ApiError("conditionNotMet", text, 412)
        rows = [{"key": key, "value": value} for key, value in items.items()]
        assert unknown_fields({"items": rows}, {"$ref": "Metadata"}) == []
        self.machines[zone, name]["metadata"] = {"fingerprint": f"{fingerprint}+", "items": rows}
        return "operation-metadata"

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        self._called("guest attribute", project, zone, name, key)
        return self.keys.get(name, "") if key == "gpu-agent/key" else self.attributes.get(name, "")

    def close(self) -> None:
        self._called("close")
