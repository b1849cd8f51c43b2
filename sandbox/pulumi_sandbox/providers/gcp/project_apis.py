"""Emulate the Google APIs that read a project's state, grants, services, policies, buckets and GKE clusters.

Paths and responses follow the discovery documents cloudresourcemanager v3, serviceusage v1, orgpolicy v2, iam v1,
storage v1 and container v1. The sandbox's user owns every project. Another account has the permissions of its custom
roles and of roles/owner, like the account that PULUMI_SANDBOX_GOOGLE_ACCOUNT names. Folders and organizations do not
exist.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.machine_apis import UNAUTHENTICATED, error_answer
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.gcp.permissions import Caller
from pulumi_sandbox.providers.gcp.restrictions import POLICIES, Restrictions
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import account_of, is_operator, operator
from pulumi_sandbox.world.store import World

PROJECT = re.compile(r"/v3/projects/([^/:]+)(?::(getIamPolicy|testIamPermissions))?")
SERVICES = re.compile(r"/v1/projects/([^/]+)/services:batchGet")
POLICY = re.compile(r"/v2/(projects/[^/]+/policies/([\w.]+)):getEffectivePolicy")
BUCKET_PATH = re.compile(r"/storage/v1/b/([^/]+)")
CLUSTER_PATH = re.compile(r"/v1/(projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/clusters/(?P<name>[^/]+))")
ACCOUNT = re.compile(r"/v1/projects/[^/]+/serviceAccounts/([^/]+):testIamPermissions")


@dataclass
class ProjectApis:
    """Read-only project APIs, with one method per service."""

    world: World
    restrictions: Restrictions
    exists: Callable[[str], bool] = lambda _: False
    """Returns True for a path of a resource that sandbox.yaml lists."""
    cluster: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None
    """Returns the result of getCluster for name, location and project, or None if the cluster does not exist."""

    def resource_manager(self, call: Call) -> Answer:
        """Answer projects.get, getIamPolicy and testIamPermissions."""
        match = PROJECT.fullmatch(call.path)
        if match is None or call.method != ("POST" if match[2] else "GET"):
            return _not_served(call)
        project, method = match.groups()
        if method == "testIamPermissions":  # the method needs no permission
            if refusal := self.refusal(call, project):
                return refusal
            tested = (call.body or {}).get("permissions", [])
            return as_json(200, {"permissions": self._granted(call, tested, project)})
        if refusal := self.refusal(call, project, f"resourcemanager.projects.{method or 'get'}"):
            return refusal
        if method == "getIamPolicy":
            return as_json(200, {"version": 1, "bindings": self._bindings(project)})
        number = self.restrictions.number
        return as_json(200, {"name": f"projects/{number}", "projectId": project, "state": "ACTIVE"})

    def service_usage(self, call: Call) -> Answer:
        """Answer services.batchGet."""
        match = SERVICES.fullmatch(call.path)
        if match is None or call.method != "GET":
            return _not_served(call)
        if refusal := self.refusal(call, match[1], "serviceusage.services.get"):
            return refusal
        states = {
            name: "DISABLED" if self.restrictions.is_disabled(name.rpartition("/")[2], match[1]) else "ENABLED"
            for name in call.query.get("names", [])
        }
        return as_json(200, {"services": [{"name": name, "state": state} for name, state in states.items()]})

    def organization_policy(self, call: Call) -> Answer:
        """Answer projects.policies.getEffectivePolicy. By default, a constraint allows everything."""
        match = POLICY.fullmatch(call.path)
        if match is None or call.method != "GET":
            return _not_served(call)
        name, constraint = match.groups()
        if refusal := self.refusal(call, part(name, "projects"), "orgpolicy.policy.get"):
            return refusal
        value = self.restrictions.policies.get(constraint)
        rule: dict[str, Any] = {"enforce": bool(value)}
        if POLICIES.get(constraint) is list:
            rule = {"values": {"allowedValues": list(value)}} if value else {"allowAll": True}
        return as_json(200, {"name": name, "spec": {"rules": [rule]}})

    def iam(self, call: Call) -> Answer:
        """Answer projects.serviceAccounts.testIamPermissions."""
        match = ACCOUNT.fullmatch(call.path)
        if match is None or call.method != "POST":
            return _not_served(call)
        email = match[1]
        if not is_operator(account_of(call.authorization)):
            return _refusal(call)
        if not any(row.outputs.get("email") == email for row in self.world.find(types.ACCOUNT)):
            return error_answer(404, "NOT_FOUND", f"Unknown service account: {email}")
        return as_json(200, {"permissions": list((call.body or {}).get("permissions", []))})

    def storage(self, call: Call) -> Answer:
        """Answer buckets.get: a bucket of a stack, or one that sandbox.yaml lists, which has every setting."""
        match = BUCKET_PATH.fullmatch(call.path)
        if match is None or call.method != "GET":
            return _not_served(call)
        name = match[1]
        row = next((one for one in self.world.find(types.BUCKET) if one.inputs.get("name") == name), None)
        # sandbox.yaml does not name the project of a bucket, so every account may read a listed one.
        permission = "storage.buckets.get" if row else ""
        if refusal := self.refusal(call, str(row.inputs.get("project") or "") if row else "", permission):
            return refusal
        if row is None and not self.exists(f"buckets/{name}"):
            return error_answer(404, "NOT_FOUND", "The specified bucket does not exist.")
        is_versioned = row is None or table(row.inputs.get("versioning")).get("enabled") is True
        is_uniform = row is None or row.inputs.get("uniformBucketLevelAccess") is True
        access = {"uniformBucketLevelAccess": {"enabled": is_uniform}}
        return as_json(
            200,
            {
                "kind": "storage#bucket",
                "id": name,
                "name": name,
                "versioning": {"enabled": is_versioned},
                "iamConfiguration": access,
            },
        )

    def container(self, call: Call) -> Answer:
        """Answer clusters.get, with the values of the function getCluster. A cluster is always RUNNING."""
        match = CLUSTER_PATH.fullmatch(call.path)
        if match is None or call.method != "GET":
            return _not_served(call)
        if refusal := self.refusal(call, match["project"], "container.clusters.get"):
            return refusal
        found = self.cluster(match.groupdict())
        if found is None:
            return error_answer(404, "NOT_FOUND", f"Not found: {match[1]}.")
        own = [
            row.id.rpartition("/")[2] for row in self.world.find(types.NODE_POOL) if row.id.startswith(f"{match[1]}/")
        ]
        names = dict.fromkeys([*(str(each["name"]) for each in found.get("nodePools") or ()), *own])
        network = {key: found[key] for key in ("datapathProvider", "network", "subnetwork") if found.get(key)}
        calico = any(each.get("enabled") for each in found.get("networkPolicies") or ())
        return as_json(
            200,
            {
                "name": match["name"],
                "location": match["location"],
                "status": "RUNNING",
                "currentMasterVersion": found["masterVersion"],
                "autopilot": {"enabled": found.get("enableAutopilot") is True},
                "networkConfig": network,
                "networkPolicy": {"provider": "CALICO", "enabled": True} if calico else {},
                "nodePools": [{"name": name, "status": "RUNNING"} for name in names],
            },
        )

    def _granted(self, call: Call, permissions: Sequence[str], project: str) -> list[str]:
        """Return those of the permissions that the caller has in a project."""
        account = account_of(call.authorization)
        return (
            list(permissions)
            if is_operator(account)
            else Caller(self.world, account or "").granted_of(permissions, project)
        )

    def refusal(self, call: Call, project: str, permission: str = "") -> Answer | None:
        """Return the refusal of a call whose permission the caller lacks, or None."""
        known = account_of(call.authorization) is not None
        allowed = known and (not permission or self._granted(call, [permission], project))
        return None if allowed else _refusal(call)

    def _bindings(self, project: str) -> list[dict[str, Any]]:
        """Return the grants of stacks and the initial grants of a project.

        A project starts with an owner, and with Editor for the Google APIs service agent
        (cloud.google.com/iam/docs/service-account-types).
        """
        members: dict[str, list[str]] = defaultdict(list)
        members["roles/owner"].append(f"serviceAccount:{operator(project)}")
        members["roles/editor"].append(f"serviceAccount:{self.restrictions.number}@cloudservices.gserviceaccount.com")
        for row in self.world.find(types.PROJECT_MEMBER):
            if row.inputs.get("project") in (None, "", project):
                members[str(row.inputs.get("role"))].append(str(row.inputs.get("member")))
        return [{"role": role, "members": names} for role, names in members.items()]


def _refusal(call: Call) -> Answer:
    if account_of(call.authorization) is None:
        return error_answer(401, "UNAUTHENTICATED", UNAUTHENTICATED)
    return error_answer(403, "PERMISSION_DENIED", "The caller does not have permission")


def _not_served(call: Call) -> Answer:
    return error_answer(404, "NOT_FOUND", f"The sandbox does not serve {call.method} {call.path}.")
