"""Outputs that AWS adds to a resource, outputs known in a preview, and drift."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner
from pulumi_sandbox.cli.world_commands import world as commands
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.values import Decoded

from tests.sandbox.providers.aws.conftest import NODE_GROUP, TEMPLATE, Amazon

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CLUSTER = {
    "name": "mine",
    "roleArn": "arn:aws:iam::123456789012:role/eks-cluster",
    "version": "1.33",
    "vpcConfig": {"subnetIds": NODE_GROUP["subnetIds"]},
}


def test_a_node_group_is_active_and_says_what_eks_chose(account: Amazon) -> None:
    bare = {name: NODE_GROUP[name] for name in ("clusterName", "nodeRoleArn", "subnetIds", "scalingConfig")}
    outputs = account.make(types.NODE_GROUP, "l4", {**bare, "nodeGroupName": "l4"}).outputs
    name = outputs["resources"][0]["autoscalingGroups"][0]["name"]
    assert re.fullmatch(f"eks-l4-{UUID}", name)
    assert outputs["arn"] == f"arn:aws:eks:us-east-1:123456789012:nodegroup/ci/l4/{name.removeprefix('eks-l4-')}"
    chosen = ("status", "amiType", "capacityType", "instanceTypes", "diskSize", "updateConfig", "version")
    assert {one: outputs[one] for one in chosen} == {
        "status": "ACTIVE",
        "amiType": "AL2023_x86_64_STANDARD",
        "capacityType": "ON_DEMAND",
        "instanceTypes": ["t3.medium"],
        "diskSize": 20,
        "updateConfig": {"maxUnavailable": 1},
        "version": "1.34",
    }
    assert outputs["releaseVersion"] == "1.34.2-20260714"
    assert outputs["nodeRepairConfig"] == {"enabled": False}


def test_an_update_keeps_the_scaling_group_and_the_release(account: Amazon) -> None:
    group = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    changed = account.change(group, scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 4})
    kept = ("arn", "resources", "releaseVersion", "version")
    assert {name: changed.outputs[name] for name in kept} == {name: group.outputs[name] for name in kept}
    assert changed.outputs["scalingConfig"]["desiredSize"] == 1


def test_a_node_group_with_a_template_says_both_its_id_and_its_name(account: Amazon) -> None:
    template = account.make(types.LAUNCH_TEMPLATE, "l4", {**TEMPLATE, "imageId": "ami-1"})
    inputs = {**NODE_GROUP, "amiType": None, "instanceTypes": None}
    group = account.make(
        types.NODE_GROUP, "l4", {**inputs, "launchTemplate": {"name": "l4-nodes", "version": "1"}}
    ).outputs
    assert group["launchTemplate"] == {"id": template.id, "name": "l4-nodes", "version": "1"}
    assert (group["amiType"], group["instanceTypes"], group["diskSize"]) == ("CUSTOM", [], 0)
    assert "releaseVersion" not in group


def test_a_prefix_is_completed_in_the_name_the_id_and_the_arn(account: Amazon) -> None:
    inputs = {**NODE_GROUP, "nodeGroupName": None, "nodeGroupNamePrefix": "l4-"}
    group = account.make(types.NODE_GROUP, "l4", inputs)
    name = group.outputs["nodeGroupName"]
    assert re.fullmatch(r"l4-\d{26}", name)
    assert group.id == f"ci:{name}"
    assert f":nodegroup/ci/{name}/" in group.outputs["arn"]
    template = account.make(types.LAUNCH_TEMPLATE, "t", {**TEMPLATE, "name": None, "namePrefix": "l4-"})
    assert re.fullmatch(r"l4-\d{26}", template.outputs["name"])
    assert account.change(template, instanceType="g6.2xlarge").outputs["name"] == template.outputs["name"]


def test_a_cluster_has_what_a_program_reads_of_one(account: Amazon) -> None:
    made = account.make(types.CLUSTER, "c", CLUSTER).outputs
    number = made["endpoint"].removeprefix("https://").partition(".")[0]
    assert made["endpoint"] == f"https://{number}.gr7.us-east-1.eks.amazonaws.com"
    assert made["identities"][0]["oidcs"][0]["issuer"] == f"https://oidc.eks.us-east-1.amazonaws.com/id/{number}"
    assert (made["version"], made["status"]) == ("1.33", "ACTIVE")
    assert re.fullmatch("sg-0[0-9a-f]{16}", made["vpcConfig"]["clusterSecurityGroupId"])
    assert made["certificateAuthority"]["data"].startswith("LS0t")
    group = account.make(types.NODE_GROUP, "l4", {**NODE_GROUP, "clusterName": "mine"})
    assert group.outputs["version"] == "1.33"


def test_the_scaling_group_of_a_node_group_takes_tags(account: Amazon) -> None:
    name = account.make(types.NODE_GROUP, "l4", NODE_GROUP).outputs["resources"][0]["autoscalingGroups"][0]["name"]
    key = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu"
    tag = {"key": key, "value": "1", "propagateAtLaunch": False}
    assert (
        account.make("aws:autoscaling/tag:Tag", "t", {"autoscalingGroupName": name, "tag": tag}).id == f"{name},{key}"
    )


def preview(amazon: Amazon, before: Any, **changes: Any) -> dict[str, Any]:
    res = amazon.resource(
        before.token, before.name, {**before.inputs, **changes},
        old_inputs=before.inputs, outputs=before.outputs, id=before.id, preview=True,
    )  # fmt: skip
    return amazon.lifecycle.update(res, Decoded(before.outputs)).values


def test_a_desired_size_that_somebody_changed_is_read_back(account: Amazon, monkeypatch: pytest.MonkeyPatch) -> None:
    group = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(account.workspace.root))
    monkeypatch.chdir(account.workspace.project)
    done = CliRunner().invoke(commands, ["edit", group.id, "scalingConfig.desiredSize=3"])
    assert (done.exit_code, done.exception) == (0, None)
    found = account.lifecycle.read(types.NODE_GROUP, group.id, [Decoded(group.outputs), Decoded(group.inputs)])
    assert found is not None
    _, outputs, inputs = found
    sizes = {"minSize": 0, "desiredSize": 3, "maxSize": 4}
    assert outputs.values["scalingConfig"] == inputs.values["scalingConfig"] == sizes


def test_an_object_replaces_another_one_of_its_key_in_the_same_bucket(account: Amazon) -> None:
    token = "aws:s3/bucketObjectv2:BucketObjectv2"
    made = [account.make(token, name, {"bucket": name[0], "key": "a", "content": name}) for name in ("x1", "y", "x2")]
    assert len({each.id for each in made}) == 2
