"""Lookups that describe nothing: functions of their arguments, computed as the real provider computes them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from pulumi_sandbox.providers.aws.policy import get_policy_document, go_json
from pulumi_sandbox.providers.lookup_template import LookupRefusedError

PureFunction = Callable[[Mapping[str, Any]], dict[str, Any]]


def _arn(text: str) -> dict[str, str]:
    """The six sections of an ARN (aws-sdk-go-v2 aws/arn: Parse, with its words)."""
    if not text.startswith("arn:"):
        raise LookupRefusedError(f"invalid ARN: arn: invalid prefix\n  got: {text}")
    sections = text.split(":", 5)
    if len(sections) != 6:
        raise LookupRefusedError(f"invalid ARN: arn: not enough sections\n  got: {text}")
    return dict(zip(("partition", "service", "region", "account", "resource"), sections[1:], strict=True))


def get_arn(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": arguments["arn"], **_arn(arguments["arn"])}


def arn_parse(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parsed = _arn(arguments["arn"])
    return {"accountId": parsed.pop("account"), **parsed}


def arn_build(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parts = (arguments.get(name) or "" for name in ("partition", "service", "region", "accountId", "resource"))
    return {"result": ":".join(("arn", *parts))}


def get_iam_policy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """gcp.organizations.getIAMPolicy, after terraform-provider-google data_source_google_iam_policy.go (0a504cd5).

    Audit configurations are sorted by service: the real order follows a hash of Terraform's.
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
    """gcp.projectFromId and its like (terraform-provider-google, google/functions/*_from_id.go)."""

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


PURE: dict[str, dict[str, PureFunction]] = {
    "aws": {
        "aws:iam/getPolicyDocument:getPolicyDocument": get_policy_document,
        "aws:index/getArn:getArn": get_arn,
        "aws:index/arnParse:arnParse": arn_parse,
        "aws:index/arnBuild:arnBuild": arn_build,
    },
    "gcp": {
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
    },
    "kubernetes": {},
    "github": {},
}  # fmt: skip
