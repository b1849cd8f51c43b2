"""The offline aws provider: names, ids, ARNs and replacements as Amazon and pulumi-aws form them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.provider import Aws
from pulumi_sandbox.providers.bridged import Naming
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.clouds import Bench

ROLE = "aws:iam/role:Role"
BUCKET = "aws:s3/bucket:Bucket"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "sandbox.yaml").write_text("exists: {aws: [cluster/ci, role/r]}\n")
    return Bench(Aws(), tmp_path, {"region": "eu-west-1"})


def test_a_name_left_open_is_the_logical_one_with_seven_hex_digits(bench: Bench) -> None:
    role = bench.checked(ROLE, "Runner", {"assumeRolePolicy": "{}"})
    assert re.fullmatch(r"Runner-[0-9a-f]{7}", role.inputs["name"])
    assert role.inputs["__defaults"] == ["name"]
    bucket = bench.checked(BUCKET, "Cache", {})
    assert re.fullmatch(r"cache-[0-9a-f]{7}", bucket.inputs["bucket"])
    assert "name" not in bucket.inputs


def test_a_name_that_is_given_or_has_a_prefix_is_left_alone(bench: Bench) -> None:
    assert bench.checked(ROLE, "r", {"name": "mine"}).inputs == {"name": "mine"}
    assert bench.checked(ROLE, "r", {"namePrefix": "mine-"}).inputs == {"namePrefix": "mine-"}
    assert bench.checked(ROLE, "r", {"name": UNKNOWN}).inputs == {"name": UNKNOWN}


def test_a_policy_given_as_an_object_becomes_json(bench: Bench) -> None:
    policy = {"Version": "2012-10-17", "Statement": []}
    assert bench.checked(ROLE, "r", {"name": "r", "assumeRolePolicy": policy}).inputs["assumeRolePolicy"] == (
        '{"Statement":[],"Version":"2012-10-17"}'
    )
    unknown = {"Version": "2012-10-17", "Statement": [{"Resource": UNKNOWN}]}
    assert bench.checked(ROLE, "r", {"name": "r", "assumeRolePolicy": unknown}).inputs["assumeRolePolicy"] == unknown


def test_ids_and_arns_look_like_amazons(bench: Bench) -> None:
    role = bench.made(ROLE, "r", {"name": "runner", "assumeRolePolicy": "{}", "path": "/ci/", "tags": {"a": "b"}})
    assert role.id == "runner"
    assert role.outputs["arn"] == "arn:aws:iam::123456789012:role/ci/runner"
    assert re.fullmatch(r"AROA[A-Z2-7]{17}", role.outputs["uniqueId"])
    assert role.outputs["tagsAll"] == {"a": "b"}
    tags = [{"key": "a", "value": "b", "propagateAtLaunch": True}]
    group = {"minSize": 0, "maxSize": 1, "availabilityZones": ["eu-west-1a"], "launchConfiguration": "c", "tags": tags}
    assert bench.made("aws:autoscaling/group:Group", "g", group).outputs["tags"] == tags
    node_role = "arn:aws:iam::123456789012:role/r"
    group = bench.made(NODE_GROUP, "g", {"clusterName": "ci", "nodeGroupName": "gpu", "nodeRoleArn": node_role})
    assert group.id == "ci:gpu"
    assert re.fullmatch(r"arn:aws:eks:eu-west-1:123456789012:nodegroup/ci/gpu/[0-9a-f-]{36}", group.outputs["arn"])
    vpc = bench.made("aws:ec2/vpc:Vpc", "v", {"cidrBlock": "10.0.0.0/16"})
    assert re.fullmatch(r"vpc-0[0-9a-f]{16}", vpc.id)
    assert vpc.outputs["arn"] == f"arn:aws:ec2:eu-west-1:123456789012:vpc/{vpc.id}"
    assert vpc.outputs["ownerId"] == "123456789012"
    topic = bench.made("aws:sns/topic:Topic", "t", {"name": "t", "region": "us-east-2"})
    assert topic.id == topic.outputs["arn"] == "arn:aws:sns:us-east-2:123456789012:t"
    assert topic.outputs["region"] == "us-east-2"
    queue = bench.made("aws:sqs/queue:Queue", "q", {"name": "q"})
    assert queue.id == queue.outputs["url"] == "https://sqs.eu-west-1.amazonaws.com/123456789012/q"


def test_a_launch_template_counts_its_versions_and_what_is_not_in_one_makes_none(bench: Bench) -> None:
    template = bench.made("aws:ec2/launchTemplate:LaunchTemplate", "l", {"instanceType": "t3.small"})
    assert (template.outputs["latestVersion"], template.outputs["defaultVersion"]) == (1, 1)

    def counted(**changes: Any) -> list[int]:
        changed = replace(template, inputs={**template.inputs, **changes}, old_inputs=template.inputs)
        return [bench.cloud.computed(changed)[name] for name in ("latestVersion", "defaultVersion")]

    assert counted() == counted(tags={"a": "b"}) == [1, 1]
    assert counted(instanceType="t3.large") == counted(description="larger") == [2, 1]
    assert counted(instanceType="t3.large", updateDefaultVersion=True) == [2, 2]


def test_a_type_no_table_knows_still_gets_an_id_and_an_arn(bench: Bench) -> None:
    token = "aws:athena/workgroup:Workgroup"
    group = bench.made(token, "queries", {})
    assert group.id == group.inputs["name"]
    assert group.outputs["arn"] == f"arn:aws:athena:eu-west-1:123456789012:workgroup/{group.id}"
    assert bench.cloud.replaces(token, "name") is None


def test_what_replaces_a_node_group_is_what_the_real_provider_forces_new(bench: Bench) -> None:
    def replaces(path: str) -> bool | None:
        return bench.cloud.replaces(NODE_GROUP, path)

    assert [replaces(one) for one in ("instanceTypes[0]", "amiType", "launchTemplate.id", "launchTemplate")] == [
        True
    ] * 4
    assert [replaces(one) for one in ("launchTemplate.version", "scalingConfig.maxSize", "labels.a")] == [False] * 3


def test_the_rows_name_only_what_the_sdk_has(bench: Bench) -> None:
    shapes = bench.cloud.shapes
    assert [token for token in types.ROWS if token not in shapes.tokens] == []
    known = {"region", "account", "issuer", "slug", "uuid"}
    for token, row in types.ROWS.items():
        inputs = shapes.shape(token).inputs.properties
        assert set(re.findall(r"\{(\w+)\}", row.id + row.arn)) - known <= inputs.keys(), token
        assert row.naming == Naming() or not inputs[row.naming.key].required, token
        assert {path.split(".")[0] for path in row.replaces or ()} <= inputs.keys(), token
