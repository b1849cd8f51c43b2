"""The rules of AWS beyond its schemas. Policy documents are checked by the schemas of cfn-lint, one for each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import referencing
from referencing.jsonschema import DRAFT202012

from pulumi_sandbox.providers.aws import documents, image_builder, instance_types, types
from pulumi_sandbox.providers.aws.eks import node_group_rules
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

Inputs = dict[str, Any]
TRUST, IDENTITY = "policy_trust", "policy_identity"
# The inputs of a type that are documents, and their schema.
DOCUMENTS = {
    types.ROLE: (("assumeRolePolicy", TRUST),),
    types.ROLE_POLICY: (("policy", IDENTITY),),
    types.POLICY: (("policy", IDENTITY),),
}
MARKETS = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK", "on-demand": "ON_DEMAND"}


def rules(token: str, inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the rules of AWS or its provider that are in no schema."""
    yield from _policies(token, inputs)
    match token:
        case types.NODE_GROUP:
            yield from node_group_rules.node_group(inputs, region)
        case types.LAUNCH_TEMPLATE | types.INSTANCE:
            yield from _launch_template(inputs, region)
        case types.IMAGE_COMPONENT:
            yield from image_builder.document_problems(inputs)


def _launch_template(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the machine of a launch template or of a VM."""
    name, market = inputs.get("instanceType"), table(inputs.get("instanceMarketOptions")).get("marketType")
    if not isinstance(name, str) or not name:
        return
    if not instance_types.is_offered_in(name, region):
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3648
        text = f"The specified instance type {name} is not valid"
        yield Problem("instanceType", text, instance_types.availability_hint(name, region))
    if market in MARKETS:
        yield from instance_types.check_market(name, MARKETS[market], "instanceType")
    machine = instance_types.offer(name)
    efas = sum(str(table(row).get("interfaceType")).startswith("efa") for row in rows(inputs.get("networkInterfaces")))
    if machine and "efa_interfaces" not in machine.uncertain and efas > machine.efa_interfaces:
        # docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html; gpu_catalog
        yield Problem("networkInterfaces", f"{name} has {machine.efa_interfaces} EFA interfaces, got {efas}")


def _policies(token: str, inputs: Inputs) -> Iterator[Problem]:
    """Yield the problems of the policy documents of a resource."""
    for name, schema in DOCUMENTS.get(token, ()):
        yield from _policy(inputs.get(name), name, schema)
    for index, row in enumerate(rows(inputs.get("inlinePolicies")) if token == types.ROLE else ()):
        yield from _policy(table(row).get("policy"), f"inlinePolicies[{index}].policy", IDENTITY)


def _policy(value: Any, path: str, schema: str) -> Iterator[Problem]:
    if not isinstance(value, str):  # a document that is not known yet
        return
    try:
        document = json.loads(value)
    except ValueError as error:
        yield Problem(path, f'"{path}" contains an invalid JSON policy: {error}')
        return
    for each in _validator(schema).iter_errors(document):
        # An IAM variable may be anywhere in a text.
        if "${" not in str(each.instance):
            yield Problem(path, f"MalformedPolicyDocument: {each.json_path}: {each.message}")


@cache
def _validator(name: str) -> Any:
    base = DRAFT202012.create_resource(documents.iam_schema("policy"))
    registry = referencing.Registry().with_resource("policy", base)
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"requiredXor": _exactly_one})
    return kind(documents.iam_schema(name), registry=registry)


def _exactly_one(_: Any, names: list[str], instance: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict) and sum(name in instance for name in names) != 1:
        yield jsonschema.ValidationError(f"exactly one of {', '.join(names)} is required")
