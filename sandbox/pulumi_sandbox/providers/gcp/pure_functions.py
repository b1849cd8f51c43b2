"""Compute the gcp functions whose result depends only on the arguments, as the real provider does."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.invokes import LookupRefusedError, go_json
from pulumi_sandbox.providers.resource import PureFunction


def get_iam_policy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Compute gcp.organizations.getIAMPolicy.

    Source: terraform-provider-google, data_source_google_iam_policy.go (0a504cd5). Audit configurations are sorted by
    service; the real provider sorts them by a Terraform hash.
    """
    bindings: dict[tuple[str, ...], dict[str, Any]] = {}
    for given in arguments.get("bindings") or []:
        condition = {k: given["condition"][k] for k in ("description", "expression", "title") if _set(given, k)}
        key = (given["role"], *(condition.get(k, "") for k in ("expression", "title", "description")))
        members = sorted(set(given["members"]))
        binding = bindings.setdefault(key, {"condition": condition, "members": [], "role": given["role"]})
        binding["members"] = sorted(binding["members"] + members)
    audits = [
        {
            "auditLogConfigs": [
                _without_empty({"exemptedMembers": one.get("exemptedMembers"), "logType": one["logType"]})
                for one in config["auditLogConfigs"]
            ],
            "service": config["service"],
        }
        for config in sorted(arguments.get("auditConfigs") or [], key=lambda config: str(config["service"]))
    ]
    policy = {"auditConfigs": audits, "bindings": [_without_empty(bindings[key]) for key in sorted(bindings)]}
    data = go_json(_without_empty(policy))
    return {"id": str(zlib.crc32(data.encode())), "policyData": data}


def _set(binding: Mapping[str, Any], name: str) -> bool:
    return bool((binding.get("condition") or {}).get(name))


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if one}


def _part_of_id(pattern: str) -> PureFunction:
    """Return a function such as gcp.projectFromId (terraform-provider-google, google/functions/*_from_id.go)."""

    def find(arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = re.search(pattern, next(iter(arguments.values())))
        if not found:
            raise LookupRefusedError(f"expected an id or a name with the pattern {pattern}, got {arguments}")
        return {"result": found[1]}

    return find


_PARTS = {
    **{f"{name}FromId": rf"{name}s/([^/]+)/" for name in ("project", "region", "zone", "location")},
    "nameFromId": r"/([^/]+)$",
    "regionFromZone": r"^([^-]+-[^-]+)-",
}
FUNCTIONS: dict[str, PureFunction] = {
    "gcp:organizations/getIAMPolicy:getIAMPolicy": get_iam_policy,
    **{f"gcp:index/{name}:{name}": _part_of_id(pattern) for name, pattern in _PARTS.items()},
}
