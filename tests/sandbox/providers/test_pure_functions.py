"""Lookups that are functions of their arguments: IAM policies and parts of ids, as the real providers compute them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.invokes import LookupRefusedError, Lookups
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.server import cloud_of

POLICY = "aws:iam/getPolicyDocument:getPolicyDocument"
IAM = "gcp:organizations/getIAMPolicy:getIAMPolicy"


@pytest.fixture(scope="module")
def lookups() -> dict[str, Lookups]:
    return {name: Lookups(Shapes.for_package(name), pure=cloud_of(name).pure) for name in ("gcp", "aws")}


def document(lookups: dict[str, Lookups], **arguments: Any) -> Any:
    result, _ = lookups["aws"].answer(POLICY, arguments, {})
    assert json.loads(result["json"]) == json.loads(result["minifiedJson"])
    return json.loads(result["json"])


def refusal(lookups: Lookups, token: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(LookupRefusedError) as refused:
        lookups.answer(token, arguments, {})
    return str(refused.value)


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


def test_parts_of_ids_and_arns_are_taken_out(lookups: dict[str, Lookups]) -> None:
    def result(token: str, **arguments: Any) -> Any:
        return lookups[token.split(":")[0]].answer(token, arguments, {})[0]

    link = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-c/instances/i"
    assert result("gcp:index/projectFromId:projectFromId", id=link) == {"result": "p"}
    assert result("gcp:index/zoneFromId:zoneFromId", id=link) == {"result": "us-central1-c"}
    assert result("gcp:index/nameFromId:nameFromId", id=link) == {"result": "i"}
    assert result("gcp:index/regionFromZone:regionFromZone", zone="us-central1-c") == {"result": "us-central1"}
    assert link in refusal(lookups["gcp"], "gcp:index/regionFromId:regionFromId", {"id": link})
    arn = "arn:aws:iam::123456789012:role/path/name:x"
    parts = {"partition": "aws", "service": "iam", "region": "", "resource": "role/path/name:x"}
    assert result("aws:index/getArn:getArn", arn=arn) == {"arn": arn, "id": arn, "account": "123456789012", **parts}
    assert result("aws:index/arnParse:arnParse", arn=arn) == {"accountId": "123456789012", **parts}
    assert result("aws:index/arnBuild:arnBuild", accountId="123456789012", **parts) == {"result": arn}
    assert "invalid ARN" in refusal(lookups["aws"], "aws:index/getArn:getArn", {"arn": "arn:aws:iam"})
