"""Compute the gcp functions whose result depends only on the arguments, as the real provider does."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.go_json import go_json
from pulumi_sandbox.providers.lookup_template import LookupRefusedError
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
        deleted = next((one for one in members if one.startswith("deleted:")), None)
        if deleted:
            raise LookupRefusedError(
                f"gcp:organizations/getIAMPolicy:getIAMPolicy: IAM policies for deleted principals are not supported\n"
                f"  got: {deleted}"
            )
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


def element_from_id(function: str, pattern: str, wanted: str) -> PureFunction:
    """Return a function such as gcp.projectFromId (terraform-provider-google, google/functions/*_from_id.go)."""

    def find(arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = re.search(pattern, arguments["id"])
        if not found:
            raise LookupRefusedError(
                f'{function}: The input string "{arguments["id"]}" doesn\'t contain the expected pattern "{wanted}".'
            )
        return {"result": found.group(1)}

    return find


def region_from_zone(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parts = arguments["zone"].split("-")
    if len(parts) < 3:
        raise LookupRefusedError(f'regionFromZone: The input string "{arguments["zone"]}" is not a valid zone name.')
    return {"result": "-".join(parts[:-1])}


FUNCTIONS: dict[str, PureFunction] = {
    "gcp:organizations/getIAMPolicy:getIAMPolicy": get_iam_policy,
    "gcp:index/regionFromZone:regionFromZone": region_from_zone,
    **{
        f"gcp:index/{name}FromId:{name}FromId": element_from_id(
            f"{name}FromId", f"{collection}/([^/]+)/", f"{collection}/{{{name}}}/"
        )
        for name, collection in (
            ("project", "projects"), ("region", "regions"), ("zone", "zones"), ("location", "locations")
        )
    },
    "gcp:index/nameFromId:nameFromId": element_from_id("nameFromId", "/([^/]+)$", "resourceType/{name}$"),
}  # fmt: skip
