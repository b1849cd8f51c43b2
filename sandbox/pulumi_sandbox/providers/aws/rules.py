"""The rules of AWS beyond its schemas. Policy documents are checked by the schemas of cfn-lint, one for each kind.

There are no rules for machines, labels and sizes: the components of this project check them before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import referencing
from referencing.jsonschema import DRAFT202012

from pulumi_sandbox.providers.aws import documents, types
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

TRUST, IDENTITY = "policy_trust", "policy_identity"
# The inputs of a type that are documents, and their schema.
DOCUMENTS = {
    types.ROLE: (("assumeRolePolicy", TRUST),),
    types.ROLE_POLICY: (("policy", IDENTITY),),
    types.POLICY: (("policy", IDENTITY),),
}


def rules(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check the policy documents of a resource."""
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
