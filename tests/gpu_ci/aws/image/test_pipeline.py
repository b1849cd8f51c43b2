"""The resources of an image pipeline: closed machines, few permissions, tests, and the images that are kept."""

from __future__ import annotations

import re
from typing import Any

import botocore.session  # type: ignore[import-untyped]
import pytest
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from gpu_ci.aws import resource_names

from tests.gpu_ci.aws.image.image_pipelines import PRIVATE, PUBLIC, pipeline
from tests.gpu_ci.harness import Row

MODEL = botocore.session.get_session().get_service_model("imagebuilder")


def test_the_machines_are_closed() -> None:
    found = pipeline()
    machines = found.one(":InfrastructureConfiguration").inputs
    assert machines["instanceMetadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert machines["terminateInstanceOnFailure"] is True
    assert machines["subnetId"] == "subnet-0123456789abcdef0"
    assert "keyPair" not in machines
    [rule] = found.of("vpc/securityGroupEgressRule:SecurityGroupEgressRule")
    assert (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("tcp", 443, 443)
    assert found.of("SecurityGroupIngressRule") == []
    assert "ingress" not in found.one("ec2/securityGroup:SecurityGroup").inputs


def roles(*images: str) -> dict[str, list[str]]:
    """Return the names of the managed policies by role."""
    found: dict[str, list[str]] = {}
    rows = pipeline(images=list(images)).rows
    for row in rows:
        if row.type.endswith(":RolePolicyAttachment"):
            role = "cleaner" if "cleaner" in row.name else "build"
            found.setdefault(role, []).append(row.inputs["policyArn"].removeprefix("arn:aws:iam::aws:policy/"))
    return found


def test_the_roles_have_what_aws_requires() -> None:
    assert roles(PUBLIC) == {
        "build": ["EC2InstanceProfileForImageBuilder", "AmazonSSMManagedInstanceCore"],
        "cleaner": ["service-role/EC2ImageBuilderLifecycleExecutionPolicy"],
    }


def test_the_machines_may_pull_from_ecr_if_an_image_is_there() -> None:
    [pull] = set(roles(PUBLIC, PRIVATE)["build"]) - set(roles(PUBLIC)["build"])
    assert pull == "AmazonEC2ContainerRegistryPullOnly"
    assert pipeline(images=[PUBLIC, PRIVATE]).of("iam/rolePolicy:RolePolicy") == []


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_the_base_is_the_newest_image_of_eks_for_the_cluster(architecture: str) -> None:
    found = pipeline(architecture=architecture)
    assert found.one(":ImageRecipe").inputs["parentImage"] == (
        f"ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{architecture}/nvidia/recommended/image_id"
    )
    types = {"x86_64": ["g4dn.xlarge"], "arm64": ["g5g.xlarge"]}
    assert found.one(":InfrastructureConfiguration").inputs["instanceTypes"] == types[architecture]


def test_the_image_is_encrypted_and_private() -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"
    found = pipeline(kms_key_arn=key)
    [disk] = found.one(":ImageRecipe").inputs["blockDeviceMappings"]
    assert disk == {
        "deviceName": "/dev/xvda",
        "ebs": {
            "encrypted": "true",
            "kmsKeyId": key,
            "volumeSize": 100,
            "volumeType": "gp3",
            "deleteOnTermination": "true",
        },
    }
    [region] = found.one(":DistributionConfiguration").inputs["distributions"]
    image = region["amiDistributionConfiguration"]
    assert image["name"] == "stack-nodes-{{ imagebuilder:buildDate }}"
    assert (region["region"], image["kmsKeyId"]) == ("us-east-1", key)
    assert {"launchPermission", "targetAccountIds"} & image.keys() == set()


def test_machines_and_images_have_the_tags_of_the_stack() -> None:
    found, tags = pipeline(tags={"team": "ml"}), {"team": "ml", "gpu-ci-pool": "nodes"}
    assert found.one(":InfrastructureConfiguration").inputs["resourceTags"] == tags
    [region] = found.one(":DistributionConfiguration").inputs["distributions"]
    assert region["amiDistributionConfiguration"]["amiTags"] == tags


def test_machines_wait_for_their_network_access_and_the_policy_for_its_role() -> None:
    found = pipeline()

    def waits_for(type_: str) -> set[str]:
        return {urn.rpartition("::")[2] for urn in found.one(type_).request.dependencies}

    assert "nodes-https" in waits_for(":InfrastructureConfiguration")
    attached = {row.name for row in found.of(":RolePolicyAttachment") if row.name.startswith("nodes-cleaner")}
    assert attached
    assert attached <= waits_for(":LifecyclePolicy")


def test_tests_always_run_and_a_build_needs_a_new_base() -> None:
    inputs = pipeline().one(":ImagePipeline").inputs
    assert inputs["imageTestsConfiguration"] == {"imageTestsEnabled": True}
    assert inputs["schedule"] == {
        "scheduleExpression": "cron(0 6 ? * MON *)",
        "pipelineExecutionStartCondition": "EXPRESSION_MATCH_AND_DEPENDENCY_UPDATES_AVAILABLE",
        "timezone": "Etc/UTC",
    }
    row = pipeline(schedule="rate(7 days)").one(":ImagePipeline")
    assert row.inputs["schedule"]["scheduleExpression"] == "rate(7 days)"


def test_the_policy_keeps_n_images_and_those_in_use() -> None:
    policy = pipeline(keep=3, keep_launched_days=30, pools=["a10g"], used_by=["prod/l4"]).one(":LifecyclePolicy").inputs
    assert policy["policyDetails"] == [
        {
            "action": {"type": "DELETE", "includeResources": {"amis": True, "snapshots": True}},
            "filter": {"type": "COUNT", "value": 3},
            "exclusionRules": {
                "amis": {
                    "lastLaunched": {"unit": "DAYS", "value": 30},
                    "tagMap": {"gpu-ci-in-use-stack-a10g": "true", "gpu-ci-in-use-prod-l4": "true"},
                }
            },
        }
    ]
    assert policy["resourceSelection"] == {"recipes": [{"name": "stack-nodes", "semanticVersion": "x.x.x"}]}


def test_the_key_of_a_tag_of_long_names_has_at_most_128_characters() -> None:
    keys = [resource_names.in_use_key("s" * 100, pool) for pool in ("a" * 40, "b" * 40)]
    assert [len(key) <= 128 for key in keys] == [True, True]
    assert len(set(keys)) == 2


def versions(**changes: Any) -> dict[str, tuple[str, str]]:
    rows = [row for row in pipeline(**changes).rows if "version" in row.inputs]
    return {row.name: (row.inputs["name"], row.inputs["version"]) for row in rows}


def test_new_content_is_a_new_version_under_the_same_name_and_old_content_the_old_version() -> None:
    before, after = versions(), versions(images=[PUBLIC, PRIVATE])
    assert [name for name, _ in before.values()] == ["stack-nodes-pull", "stack-nodes-test", "stack-nodes"]
    assert {key: name for key, (name, _) in before.items()} == {key: name for key, (name, _) in after.items()}
    assert before["nodes-pull"][1] != after["nodes-pull"][1]
    assert versions(disk_gib=200)["nodes-recipe"] != before["nodes-recipe"]
    assert versions() == before
    assert all(int(part) < 2**30 for _, version in before.values() for part in version.split("."))


def test_versions_and_recipes_are_created_before_the_old_ones_are_deleted() -> None:
    rows = [row for row in pipeline().rows if re.search(":(Component|ImageRecipe)$", row.type)]
    assert [(row.request.deleteBeforeReplaceDefined, row.request.deleteBeforeReplace) for row in rows] == [
        (True, False)
    ] * 3


def request(row: Row) -> dict[str, Any]:
    """Return the request of the API that the provider makes of the inputs of a resource."""
    inputs = {key: value for key, value in row.inputs.items() if key != "region"}
    if "version" in inputs:
        inputs["semanticVersion"] = inputs.pop("version")
    for mapping in inputs.get("blockDeviceMappings", []):
        for name in ("encrypted", "deleteOnTermination"):
            mapping["ebs"][name] = mapping["ebs"][name] == "true"
    return dict(_whole({"name": row.name, **inputs, "clientToken": "token"}))


def _whole(value: Any) -> Any:
    """Return the value with whole numbers, which the engine passes as floats."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) else value


@pytest.mark.parametrize("changes", [{}, {"images": [PUBLIC, PRIVATE], "pools": ["a10g"]}], ids=["default", "more"])
def test_every_request_is_valid_for_the_model_of_the_api(changes: dict[str, Any]) -> None:
    rows = [row for row in pipeline(**changes).rows if row.type.startswith("aws:imagebuilder/")]
    assert len(rows) == 7
    for row in rows:
        shape = MODEL.operation_model(f"Create{row.type.rpartition(':')[2]}").input_shape
        sent = request(row)
        assert sent.keys() - shape.members.keys() == set(), row.name
        assert not ParamValidator().validate(sent, shape).has_errors(), row.name
