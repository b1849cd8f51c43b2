"""The known faults of GPU node groups on EKS, each by its name, with the public report if there is one."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci import versions
from gpu_ci.aws.gpu_node_group import GpuNodeGroup
from gpu_ci.kubernetes import gpu_nodes

from tests.gpu_ci.aws.node_groups import (
    BLOCK,
    EFA,
    RESERVATION,
    SUBNET_A,
    SUBNET_B,
    args,
    group,
    nodes,
    problems,
    scaling_tags,
    tag_rows,
    template,
)
from tests.gpu_ci.harness import UNKNOWN, deploy
from tests.gpu_ci.support import COMPUTED

BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}


def test_a_gpu_never_gets_an_image_without_a_driver() -> None:
    """pulumi-eks boots the CPU image where `gpu` stands alone (pulumi/pulumi-eks@7bf0c1b:nodejs/eks/nodes/ami.ts)."""
    assert nodes()["amiType"] == "AL2023_x86_64_NVIDIA"
    assert nodes(instance_types=["g5g.xlarge"])["amiType"] == "AL2023_ARM_64_NVIDIA"


def test_the_taint_is_the_one_device_plugins_tolerate() -> None:
    """NVIDIA/k8s-device-plugin#734."""
    assert nodes()["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    assert gpu_nodes.toleration() == {
        "key": "nvidia.com/gpu",
        "operator": "Equal",
        "value": "present",
        "effect": "NoSchedule",
    }


def test_cluster_autoscaler_waits_for_the_device_plugin_of_a_new_node() -> None:
    """kubernetes/autoscaler#1949, #3164, #3464: without the label it starts more and more of them."""
    assert nodes()["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-l4"
    assert nodes(**EFA)["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-l40s"


def test_no_label_is_in_a_domain_the_kubelet_may_not_set() -> None:
    """kubernetes.io/docs/reference/access-authn-authz/admission-controllers, NodeRestriction."""
    prefixes = [key.rpartition("/")[0] for key in nodes()["labels"]]
    assert sorted(prefixes) == ["", "k8s.amazonaws.com", "nvidia.com", "nvidia.com"]


def test_cluster_autoscaler_can_start_from_no_node() -> None:
    """kubernetes/autoscaler#3869 and #5278: the tags have to be on the Auto Scaling group, with the taint in one."""
    assert scaling_tags(group()) == {
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/ci": "owned",
        "k8s.io/cluster-autoscaler/node-template/taint/nvidia.com/gpu": "present:NoSchedule",
        "k8s.io/cluster-autoscaler/node-template/label/gpu-ci-pool": "l4",
        "k8s.io/cluster-autoscaler/node-template/label/nvidia.com/gpu.present": "true",
        "k8s.io/cluster-autoscaler/node-template/label/k8s.amazonaws.com/accelerator": "nvidia-l4",
        "k8s.io/cluster-autoscaler/node-template/label/eks.amazonaws.com/nodegroup": "pool-nodes-1",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "1",
        "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage": "89Gi",
    }


def test_the_tags_name_the_group_eks_made_and_wait_for_it() -> None:
    rows = tag_rows(group())
    assert {row.inputs["autoscalingGroupName"] for row in rows} == {"eks-pool-nodes-1"}
    assert {row.inputs["tag"]["propagateAtLaunch"] for row in rows} == {False}
    preview = tag_rows(group(preview=True))
    assert [row.inputs["autoscalingGroupName"] for row in preview] == [UNKNOWN] * 9


def test_a_node_group_without_an_auto_scaling_group_is_reported_without_a_traceback() -> None:
    kind = "aws:eks/nodeGroup:NodeGroup"
    empty = COMPUTED | {kind: {**COMPUTED[kind], "resources": []}}
    with pytest.raises(pulumi.RunError) as caught:
        deploy(lambda: GpuNodeGroup("l4", args()), computed=empty)
    assert str(caught.value) == (
        "GpuNodeGroup 'l4': EKS reports 0 Auto Scaling groups for the node group\n  expected: one"
    )


@pytest.mark.parametrize(
    ("changes", "gpus"),
    [
        ({"instance_types": ["g6.12xlarge"]}, "4"),
        ({"instance_types": ["p4d.24xlarge"]}, "8"),
        ({"instance_types": ["g6f.xlarge"]}, "1"),
    ],
)
def test_the_tag_counts_gpus_as_the_device_plugin_does(changes: dict[str, Any], gpus: str) -> None:
    tags = scaling_tags(group(**changes))
    assert tags["k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu"] == gpus


def test_no_size_is_changed_by_the_provider_which_would_send_the_desired_one_too() -> None:
    row = group().one(":NodeGroup")
    assert row.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 4, "desiredSize": 0}
    assert list(row.request.ignoreChanges) == ["scalingConfig"]
    limits = group().one(":NodeGroupLimits")
    assert limits.inputs == {
        "region": "us-east-1",
        "clusterName": "ci",
        "nodeGroupName": "pool-nodes-1",
        "maxSize": 4,
        "autoscalingGroupName": "eks-pool-nodes-1",
        "generation": "l4-template-id 3 AL2023_x86_64_NVIDIA 1.35.3-20260917",
    }
    assert "autoscalingGroupName" not in group(zones=["us-east-1a"]).one(":NodeGroupLimits").inputs
    assert limits.request.version == versions.PACKAGE


def test_a_node_group_with_a_template_says_nothing_that_belongs_there() -> None:
    """docs.aws.amazon.com/eks/latest/userguide/launch-templates.html: EKS refuses both at once."""
    for inputs in (nodes(), nodes(**BLOCK), nodes(**EFA)):
        assert {"diskSize", "remoteAccess"} & set(inputs) == set()


@pytest.mark.parametrize("changes", [{}, BLOCK, EFA, BOTTLEROCKET])
def test_the_template_has_nothing_eks_refuses_in_it(changes: dict[str, Any]) -> None:
    inputs = template(**changes)
    refused = {"iamInstanceProfile", "instanceInitiatedShutdownBehavior", "hibernationOptions", "imageId"}
    assert refused & set(inputs) == set()
    assert [card for card in inputs.get("networkInterfaces", ()) if "subnetId" in card] == []


def test_instance_types_stand_in_one_place() -> None:
    assert nodes()["instanceTypes"] == ["g6.2xlarge", "g6.4xlarge", "gr6.4xlarge"]
    assert "instanceType" not in template()
    assert "instanceTypes" not in nodes(**BLOCK)
    assert template(**BLOCK)["instanceType"] == "p5.48xlarge"


def test_the_template_is_named_by_number_and_never_as_the_latest() -> None:
    assert nodes()["launchTemplate"] == {"id": "l4-template-id", "version": "3"}


@pytest.mark.parametrize("changes", [{}, BLOCK, EFA, BOTTLEROCKET])
def test_pods_cannot_borrow_the_nodes_identity(changes: dict[str, Any]) -> None:
    assert template(**changes)["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    assert template(**changes, metadata_hop_limit=2)["metadataOptions"]["httpPutResponseHopLimit"] == 2


def test_the_disk_is_encrypted_large_and_gp3() -> None:
    """EKS's own template has 20 GiB, and pulumi-eks's leaves it unencrypted (pulumi/pulumi-eks#1724)."""
    (disk,) = template()["blockDeviceMappings"]
    assert disk == {
        "deviceName": "/dev/xvda",
        "ebs": {
            "volumeType": "gp3",
            "volumeSize": 100,
            "iops": 3000,
            "throughput": 125,
            "encrypted": "true",
            "deleteOnTermination": "true",
        },
    }


def test_bottlerocket_keeps_images_on_its_second_disk() -> None:
    system, data = template(**BOTTLEROCKET, disk_gib=200)["blockDeviceMappings"]
    assert (data["deviceName"], data["ebs"]["volumeSize"]) == ("/dev/xvdb", 200)
    assert system == {
        "deviceName": "/dev/xvda",
        "ebs": {"volumeType": "gp3", "encrypted": "true", "deleteOnTermination": "true"},
    }


def test_a_key_of_ones_own_encrypts_every_disk() -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"
    disks = template(**BOTTLEROCKET, kms_key_arn=key)["blockDeviceMappings"]
    assert [disk["ebs"]["kmsKeyId"] for disk in disks] == [key, key]


def test_cost_tags_are_on_machines_disks_and_interfaces() -> None:
    """Tags of the node group and of the template reach none of them."""
    tags = {"gpu-ci-pool": "l4", "team": "ml"}
    assert template()["tagSpecifications"] == [
        {"resourceType": kind, "tags": tags} for kind in ("instance", "volume", "network-interface")
    ]


def test_a_capacity_block_is_in_the_template_and_in_one_zone() -> None:
    """docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html."""
    inputs = template(**BLOCK)
    assert inputs["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert inputs["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": RESERVATION}
    }
    assert nodes(**BLOCK)["subnetIds"] == [SUBNET_A]
    assert nodes(**BLOCK)["scalingConfig"]["desiredSize"] == 0
    assert {"instanceMarketOptions", "capacityReservationSpecification"} & set(template()) == set()


def test_no_zone_is_asked_for_a_type_it_does_not_offer() -> None:
    types = ["g6.2xlarge"]
    assert nodes(instance_types=types)["subnetIds"] == [SUBNET_A, SUBNET_B]
    offered = {"g6.2xlarge": ["us-east-1b"]}
    (found,) = problems(instance_types=types, offerings=offered)
    assert (found.text, found.hint) == ("us-east-1a does not offer g6.2xlarge", "zones: [us-east-1b]")
    assert nodes(instance_types=types, offerings=offered, zones=["us-east-1b"])["subnetIds"] == [SUBNET_B]


def test_node_repair_is_on_and_replaces_what_a_restart_does_not_cure() -> None:
    """It is off unless it is asked for (docs.aws.amazon.com/eks/latest/userguide/node-repair.html)."""
    found = nodes()["nodeRepairConfig"]
    overrides = found["nodeRepairConfigOverrides"]
    assert found["enabled"] is True
    assert [each["nodeUnhealthyReason"] for each in overrides] == [
        "NvidiaDeviceCountMismatch",
        "NvidiaDoubleBitError",
        "NvidiaFabricError",
        "NvidiaNVLinkError",
    ]
    assert {(e["nodeMonitoringCondition"], e["repairAction"], e["minRepairWaitTimeMins"]) for e in overrides} == {
        ("AcceleratedHardwareReady", "Replace", 10)
    }
    assert nodes(node_repair=False)["nodeRepairConfig"] == {"enabled": False}


def test_an_update_needs_no_second_gpu_to_start_with() -> None:
    assert nodes()["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
