"""IAM policy documents, as the real provider computes them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from pulumi_sandbox.providers.invokes import Lookups
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.server import cloud_of

POLICY = "aws:iam/getPolicyDocument:getPolicyDocument"


@pytest.fixture(scope="module")
def lookups() -> dict[str, Lookups]:
    return {name: Lookups(name, partial(Shapes, name), pure=cloud_of(name).pure) for name in ("aws", "gcp")}


def document(lookups: dict[str, Lookups], **arguments: Any) -> Any:
    result, _ = lookups["aws"].answer(POLICY, arguments, {})
    assert json.loads(result["json"]) == json.loads(result["minifiedJson"])
    return json.loads(result["json"])


def test_a_policy_document_has_the_form_of_the_real_provider(lookups: dict[str, Lookups]) -> None:
    statement = {
        "sid": "1",
        "actions": ["s3:GetBucketLocation", "s3:ListAllMyBuckets"],
        "resources": ["arn:aws:s3:::*"],
    }
    result, _ = lookups["aws"].answer(POLICY, {"statements": [statement]}, {})
    assert result["json"] == (
        '{\n  "Version": "2012-10-17",\n  "Statement": [\n    {\n      "Sid": "1",\n      "Effect": "Allow",\n'
        '      "Action": [\n        "s3:ListAllMyBuckets",\n        "s3:GetBucketLocation"\n      ],\n'
        '      "Resource": "arn:aws:s3:::*"\n    }\n  ]\n}'
    )
    assert result["minifiedJson"] == (
        '{"Version":"2012-10-17","Statement":[{"Sid":"1","Effect":"Allow",'
        '"Action":["s3:ListAllMyBuckets","s3:GetBucketLocation"],"Resource":"arn:aws:s3:::*"}]}'
    )
    assert result["statements"] == [statement]
    assert result["id"].isdigit()


def test_documents_merge_by_sid_sources_first_overrides_last(lookups: dict[str, Lookups]) -> None:
    def text(*statements: dict[str, Any], version: str = "2012-10-17") -> str:
        return json.dumps({"Version": version, "Statement": list(statements)})

    kept = {"Sid": "kept", "Effect": "Allow", "Action": "a:1", "Resource": "*"}
    taken = {"Sid": "taken", "Effect": "Allow", "Action": "a:2", "Resource": "*"}
    nameless = {"Effect": "Allow", "Action": "a:3", "Resource": "*"}
    last = {"Sid": "kept", "Effect": "Deny", "Action": ["b", "a"], "Resource": "*"}
    written = document(
        lookups,
        sourcePolicyDocuments=[text(kept, taken, version="2008-10-17"), text(nameless)],
        statements=[{"sid": "taken", "actions": ["own:1"], "resources": ["*"]}, {"actions": ["own:2"]}],
        overridePolicyDocuments=[text(last)],
    )
    assert written == {
        "Version": "2012-10-17",
        "Statement": [
            last,
            {"Sid": "taken", "Effect": "Allow", "Action": "own:1", "Resource": "*"},
            nameless,
            {"Effect": "Allow", "Action": "own:2"},
        ],
    }


def test_a_policy_of_google_is_ordered_as_the_real_provider_orders_it(lookups: dict[str, Lookups]) -> None:
    condition = {"title": "night", "expression": "request.time < timestamp('2027-01-01T00:00:00Z')"}
    bindings = [
        {"role": "roles/viewer", "members": ["user:b@acme.com", "user:a@acme.com"], "condition": condition},
        {"role": "roles/editor", "members": ["user:c@acme.com"]},
    ]
    result, _ = lookups["gcp"].answer("gcp:organizations/getIAMPolicy:getIAMPolicy", {"bindings": bindings}, {})
    assert result["policyData"] == (
        '{"bindings":[{"members":["user:c@acme.com"],"role":"roles/editor"},'
        '{"condition":{"expression":"request.time \\u003c timestamp(\'2027-01-01T00:00:00Z\')","title":"night"},'
        '"members":["user:a@acme.com","user:b@acme.com"],"role":"roles/viewer"}]}'
    )
    assert (result["bindings"], result["id"].isdigit()) == (bindings, True)
