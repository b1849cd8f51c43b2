"""Lookups that are functions of their arguments: IAM policies and parts of ids, as the real providers compute them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.invokes import Lookups
from pulumi_sandbox.providers.lookup_template import LookupRefusedError
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


def test_conditions_are_grouped_and_variables_written_for_amazon(lookups: dict[str, Lookups]) -> None:
    conditions = [
        {"test": "StringLike", "variable": "s3:prefix", "values": ["", "home/", "home/&{aws:username}/"]},
        {"test": "Bool", "variable": "aws:SecureTransport", "values": ["true"]},
        {"test": "StringLike", "variable": "aws:userid", "values": ["a"]},
        {"test": "StringLike", "variable": "aws:userid", "values": ["b"]},
    ]
    written = document(
        lookups,
        statements=[{"actions": ["s3:ListBucket"], "resources": ["arn/&{aws:username}"], "conditions": conditions}],
    )
    assert written["Statement"] == [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn/${aws:username}",
            "Condition": {
                "Bool": {"aws:SecureTransport": "true"},
                "StringLike": {
                    "aws:userid": ["a", "b"],
                    "s3:prefix": ["", "home/", "home/${aws:username}/"],
                },
            },
        }
    ]


def test_principals_are_grouped_by_type_and_only_star_means_everybody(lookups: dict[str, Lookups]) -> None:
    def principal(*given: tuple[str, list[str]]) -> Any:
        principals = [{"type": kind, "identifiers": ids} for kind, ids in given]
        statement = {"actions": ["sts:AssumeRole"], "principals": principals}
        return document(lookups, statements=[statement])["Statement"][0]["Principal"]

    assert principal(("Service", ["ec2.amazonaws.com"])) == {"Service": "ec2.amazonaws.com"}
    assert principal(("AWS", ["a", "b"]), ("AWS", ["c"]), ("Service", ["s"])) == {
        "AWS": ["b", "a", "c"],
        "Service": "s",
    }
    assert principal(("AWS", ["*"])) == {"AWS": "*"}
    assert principal(("*", ["*"])) == "*"


def test_negated_parts_and_an_id_are_written(lookups: dict[str, Lookups]) -> None:
    statement = {
        "effect": "Deny",
        "notActions": ["iam:*"],
        "notResources": ["b", "a"],
        "notPrincipals": [{"type": "AWS", "identifiers": ["x"]}],
    }
    assert document(lookups, policyId="p", version="2008-10-17", statements=[statement]) == {
        "Version": "2008-10-17",
        "Id": "p",
        "Statement": [
            {"Effect": "Deny", "NotAction": "iam:*", "NotResource": ["b", "a"], "NotPrincipal": {"AWS": "x"}}
        ],
    }


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


def test_a_document_that_came_as_text_is_brought_into_the_same_form(lookups: dict[str, Lookups]) -> None:
    given = {
        "version": "2012-10-17",
        "Statement": [
            {
                "Unheard": 1,
                "Condition": {"Bool": {"b": True}, "A": {"x": ["1"]}},
                "principal": {"AWS": ["a", "b"]},
                "Effect": "Allow",
            },
            {"Effect": "Allow", "Principal": {"*": ["*"]}},
        ],
    }
    result, _ = lookups["aws"].answer(POLICY, {"sourcePolicyDocuments": [json.dumps(given)]}, {})
    assert result["minifiedJson"] == (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["b","a"]},'
        '"Condition":{"A":{"x":"1"},"Bool":{"b":"true"}}},{"Effect":"Allow","Principal":"*"}]}'
    )


def test_go_escapes_are_written_as_go_writes_them(lookups: dict[str, Lookups]) -> None:
    result, _ = lookups["aws"].answer(POLICY, {"statements": [{"actions": ["a"], "resources": ["<a&b>é"]}]}, {})
    assert '"Resource":"\\u003ca\\u0026b\\u003eé"' in result["minifiedJson"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"statements": [{"sid": "a"}, {"sid": "a"}]},
            "duplicate Sid (a). Remove the Sid or ensure the Sid is unique.",
        ),
        ({"statements": [{"sid": "a-b"}]}, "statements[0].sid: 'a-b' must only include alphanumeric characters"),
        ({"statements": [{"effect": "Permit"}]}, 'statements[0].effect: got "Permit", expected Allow or Deny'),
        ({"version": "2020-01-01"}, 'version: got "2020-01-01", expected one of 2008-10-17, 2012-10-17'),
        ({"sourceJson": "{}"}, "sourceJson is not used; write sourcePolicyDocuments"),
        ({"overridePolicyDocuments": ["["]}, "merging override document 0: it is not a JSON object"),
        (
            {"version": "2008-10-17", "statements": [{"resources": ["&{x}"]}]},
            "found &{ sequence in (&{x}), which is not supported in document version 2008-10-17",
        ),
        (
            {"sourcePolicyDocuments": ['{"Statement":[{"Sid":"a"}]}', '{"Statement":[{"Sid":"a"}]}']},
            (
                "merging source document 1: duplicate Sid (a) in source_policy_documents (statement 0). "
                "Remove the Sid or ensure Sids are unique."
            ),
        ),
    ],
)
def test_a_wrong_policy_document_is_refused_in_the_providers_words(
    lookups: dict[str, Lookups], arguments: dict[str, Any], problem: str
) -> None:
    assert refusal(lookups["aws"], POLICY, arguments) == f"{POLICY}: writing IAM Policy Document: {problem}"


def test_an_iam_policy_of_google_is_sorted_and_its_equal_bindings_merged(lookups: dict[str, Lookups]) -> None:
    condition = {"title": "t", "expression": "a < b"}
    bindings = [
        {"role": "roles/viewer", "members": ["user:z", "user:a"]},
        {"role": "roles/editor", "members": ["user:e"], "condition": condition},
        {"role": "roles/viewer", "members": ["user:m"]},
        {"role": "roles/editor", "members": ["user:d"]},
    ]
    audits = [{"service": "allServices", "auditLogConfigs": [{"logType": "DATA_READ", "exemptedMembers": ["user:x"]}]}]
    result, _ = lookups["gcp"].answer(IAM, {"bindings": bindings, "auditConfigs": audits}, {})
    assert result["policyData"] == (
        '{"auditConfigs":[{"auditLogConfigs":[{"exemptedMembers":["user:x"],"logType":"DATA_READ"}],'
        '"service":"allServices"}],"bindings":[{"members":["user:d"],"role":"roles/editor"},'
        '{"condition":{"expression":"a \\u003c b","title":"t"},"members":["user:e"],"role":"roles/editor"},'
        '{"members":["user:a","user:m","user:z"],"role":"roles/viewer"}]}'
    )
    assert lookups["gcp"].answer(IAM, {}, {})[0]["policyData"] == "{}"
    assert "deleted:user:x" in refusal(
        lookups["gcp"], IAM, {"bindings": [{"role": "r", "members": ["deleted:user:x"]}]}
    )


def test_parts_of_ids_and_arns_are_taken_out(lookups: dict[str, Lookups]) -> None:
    def result(token: str, **arguments: Any) -> Any:
        return lookups[token.split(":")[0]].answer(token, arguments, {})[0]

    link = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-c/instances/i"
    assert result("gcp:index/projectFromId:projectFromId", id=link) == {"result": "p"}
    assert result("gcp:index/zoneFromId:zoneFromId", id=link) == {"result": "us-central1-c"}
    assert result("gcp:index/nameFromId:nameFromId", id=link) == {"result": "i"}
    assert result("gcp:index/regionFromZone:regionFromZone", zone="us-central1-c") == {"result": "us-central1"}
    assert refusal(lookups["gcp"], "gcp:index/regionFromId:regionFromId", {"id": link}) == (
        f'regionFromId: The input string "{link}" doesn\'t contain the expected pattern "regions/{{region}}/".'
    )
    arn = "arn:aws:iam::123456789012:role/path/name:x"
    parts = {"partition": "aws", "service": "iam", "region": "", "resource": "role/path/name:x"}
    assert result("aws:index/getArn:getArn", arn=arn) == {"arn": arn, "id": arn, "account": "123456789012", **parts}
    assert result("aws:index/arnParse:arnParse", arn=arn) == {"accountId": "123456789012", **parts}
    assert result("aws:index/arnBuild:arnBuild", accountId="123456789012", **parts) == {"result": arn}
    assert refusal(lookups["aws"], "aws:index/getArn:getArn", {"arn": "arn:aws:iam"}) == (
        "invalid ARN: arn: not enough sections\n  got: arn:aws:iam"
    )
