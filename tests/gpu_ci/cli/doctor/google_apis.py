"""A fake of the Google APIs that the checklist asks, over the connection of Google's own client.

The client refuses parameters that its discovery documents do not have, and every answer is compared with them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httplib2  # type: ignore[import-untyped]
from gpu_common import google_permissions
from pulumi_sandbox.providers.gcp.discovery import document

from tests.bootstrap.stacks import WIDE

Json = dict[str, Any]
NAT = {"name": "nat", "natIpAllocateOption": "AUTO_ONLY"}
SECRETS = {"key": "ENABLED", "runner-key": "ENABLED", "manager-key": "ENABLED"}
NETWORK = "https://www.googleapis.com/compute/v1/projects/acme-ci/global/networks/ci"
APIS = {*google_permissions.services(google_permissions.RESOURCES), "orgpolicy.googleapis.com"}


CLUSTER: Json = {
    "name": "gpu",
    "status": "RUNNING",
    "currentMasterVersion": "1.34.1-gke.3720000",
    "networkConfig": {
        "datapathProvider": "ADVANCED_DATAPATH",
        "subnetwork": "projects/acme-ci/regions/us-central1/subnetworks/ci",
    },
    "nodePools": [{"name": "default-pool", "status": "RUNNING"}],
}


@dataclass
class Google:
    """A project in which everything is ready, until a test changes it."""

    apis: set[str] = field(default_factory=lambda: {*APIS})
    permissions: set[str] = field(default_factory=lambda: set(WIDE))
    policies: dict[str, list[Json]] = field(default_factory=dict)
    machine_types: set[str] = field(default_factory=lambda: {f"us-central1-{zone}/g2-standard-8" for zone in "ab"})
    quotas: dict[str, float] = field(
        default_factory=lambda: {"PREEMPTIBLE_NVIDIA_L4_GPUS": 5, "SSD_TOTAL_GB": 500, "GPUS_ALL_REGIONS": 5}
    )
    image: Json = field(default_factory=lambda: {"status": "READY"})
    has_subnetwork: bool = True
    private_access: bool = True
    nats: list[Json] = field(default_factory=lambda: [NAT])
    secrets: dict[str, str] = field(default_factory=lambda: dict(SECRETS))
    keys: dict[str, bytes] = field(default_factory=dict)
    """The values of secrets; one that is not here must not be read."""
    bucket: Json | None = field(
        default_factory=lambda: {
            "name": "acme-ci-pulumi-state",
            "versioning": {"enabled": True},
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
        }
    )
    agent_roles: tuple[str, ...] = ("roles/editor",)
    check_vms: list[str] = field(default_factory=list)
    cluster: Json | None = field(default_factory=lambda: dict(CLUSTER))
    """The GKE cluster gpu of us-central1 in acme-ci."""
    firewall: list[Json] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> tuple[httplib2.Response, bytes]:
        url = urlsplit(uri)
        service = url.netloc.partition(".")[0]
        path = unquote(url.path)
        self.asked.append(f"{method} {service} {path}")
        if f"{service}.googleapis.com" not in self.apis | {"serviceusage.googleapis.com"}:
            return _refusal(403, f"{service}.googleapis.com has not been used in project 1 before or it is disabled.")
        for pattern, schema, answer in self.routes(service):
            if match := re.fullmatch(pattern, path):
                found = answer(match, parse_qs(url.query), json.loads(body) if body else {})
                if found is None:
                    return _refusal(404, f"The resource '{path}' was not found")
                compare(found, service, schema)
                return httplib2.Response({"status": "200"}), json.dumps(found).encode()
        return _refusal(404, f"the fake does not serve {method} {uri}")

    def close(self) -> None:
        pass

    def routes(self, service: str) -> list[tuple[str, str, Any]]:
        return {
            "cloudresourcemanager": [
                (r"/v3/projects/acme-ci", "Project", lambda *_: {"name": "projects/1", "state": "ACTIVE"}),
                (r"/v3/projects/acme-ci:getIamPolicy", "Policy", self._bindings),
                (r"/v3/projects/acme-ci:testIamPermissions", "TestIamPermissionsResponse", self._permissions),
            ],
            "serviceusage": [(r"/v1/projects/acme-ci/services:batchGet", "BatchGetServicesResponse", self._services)],
            "orgpolicy": [
                (
                    r"/v2/projects/acme-ci/policies/([\w.]+):getEffectivePolicy",
                    "GoogleCloudOrgpolicyV2Policy",
                    lambda match, *_: {"name": match[0], "spec": {"rules": self.policies.get(match[1], [])}},
                )
            ],
            "secretmanager": [
                (
                    r"/v1/(projects/acme-ci/secrets/([\w-]+)/versions/latest)",
                    "SecretVersion",
                    lambda match, *_: {"name": match[1], "state": state} if (state := self.secrets[match[2]]) else None,
                ),
                (
                    r"/v1/(projects/acme-ci/secrets/([\w-]+)/versions/latest):access",
                    "AccessSecretVersionResponse",
                    self._value,
                ),
            ],
            "container": [
                (r"/v1/projects/acme-ci/locations/us-central1/clusters/gpu", "Cluster", lambda *_: self.cluster)
            ],
            "storage": [(r"/storage/v1/b/acme-ci-pulumi-state", "Bucket", lambda *_: self.bucket)],
            "compute": self._compute(),
        }[service]

    def _compute(self) -> list[tuple[str, str, Any]]:
        base = r"/compute/v1/projects/[\w-]+"
        region = rf"{base}/regions/us-central1"
        return [
            (base, "Project", lambda *_: {"quotas": self._quotas("GPUS_ALL_REGIONS")}),
            (region, "Region", lambda *_: {"name": "us-central1", "quotas": self._quotas("PREEMP", "SSD")}),
            (rf"{base}/zones/([\w-]+)/machineTypes/([\w-]+)", "MachineType", self._machine_type),
            (rf"{base}/zones/([\w-]+)/acceleratorTypes/([\w-]+)", "AcceleratorType", lambda *_: None),
            (rf"{base}/global/images/(?:family/)?([\w-]+)", "Image", lambda match, *_: self.image),
            (rf"{base}/global/firewalls", "FirewallList", lambda *_: {"items": self.firewall}),
            (rf"{region}/subnetworks/ci", "Subnetwork", self._subnetwork),
            (rf"{region}/routers", "RouterList", lambda *_: {"items": [{"network": NETWORK, "nats": self.nats}]}),
            (rf"{base}/aggregated/instances", "InstanceAggregatedList", self._instances),
        ]

    def _permissions(self, _: Any, __: Any, body: Json) -> Json:
        return {"permissions": [each for each in body["permissions"] if each in self.permissions]}

    def _value(self, match: re.Match[str], *_: Any) -> Json | None:
        if match[2] not in self.keys:
            return None
        data = base64.b64encode(self.keys[match[2]]).decode()
        return {"name": f"{match[1].removesuffix('latest')}3", "payload": {"data": data}}

    def _bindings(self, *_: Any) -> Json:
        agent = "serviceAccount:1@cloudservices.gserviceaccount.com"
        others = {"role": "roles/owner", "members": ["user:a@example.org"]}
        conditional = {"role": "roles/owner", "members": [agent], "condition": {"expression": "request.time < x"}}
        return {"bindings": [others, conditional, *({"role": role, "members": [agent]} for role in self.agent_roles)]}

    def _services(self, _: Any, query: Mapping[str, list[str]], __: Json) -> Json:
        states = {name: name.rpartition("/")[2] in self.apis for name in query["names"]}
        return {"services": [{"name": name, "state": "ENABLED" if on else "DISABLED"} for name, on in states.items()]}

    def _quotas(self, *prefixes: str) -> list[Json]:
        return [
            {"metric": metric, "limit": limit, "usage": 0}
            for metric, limit in self.quotas.items()
            if metric.startswith(prefixes)
        ]

    def _machine_type(self, match: re.Match[str], *_: Any) -> Json | None:
        return {"name": match[2]} if f"{match[1]}/{match[2]}" in self.machine_types else None

    def _subnetwork(self, *_: Any) -> Json | None:
        if not self.has_subnetwork:
            return None
        return {"name": "ci", "network": NETWORK, "privateIpGoogleAccess": self.private_access}

    def _instances(self, _: Any, query: Mapping[str, list[str]], __: Json) -> Json:
        assert query["filter"] == ["labels.gpu-ci-gate:*"]
        return {"items": {"zones/us-central1-a": {"instances": [{"name": name} for name in self.check_vms]}}}


def _refusal(status: int, message: str) -> tuple[httplib2.Response, bytes]:
    body = {"error": {"code": status, "message": message, "status": "PERMISSION_DENIED"}}
    return httplib2.Response({"status": str(status), "content-type": "application/json"}), json.dumps(body).encode()


VERSIONS = {"cloudresourcemanager": "v3", "orgpolicy": "v2"}


@cache
def _schemas(service: str) -> Json:
    found: Json = document(f"{service}.{VERSIONS.get(service, 'v1')}")["schemas"]
    return found


def compare(value: Any, service: str, schema: str) -> None:
    """Refuse an answer with a field or an enum value that Google's description of it lacks."""
    _compare(value, {"$ref": schema}, _schemas(service), schema)


def _compare(value: Any, node: Json, schemas: Json, where: str) -> None:
    node = schemas[node["$ref"]] if "$ref" in node else node
    if isinstance(value, dict):
        known = node.get("properties", {})
        for key, each in value.items():
            assert key in known or "additionalProperties" in node, f"{where} has no {key}"
            _compare(each, known.get(key) or node["additionalProperties"], schemas, f"{where}.{key}")
    elif isinstance(value, list):
        assert node["type"] == "array", where
        for each in value:
            _compare(each, node["items"], schemas, where)
    elif "enum" in node:
        assert value in node["enum"], f"{where}: {value}"
