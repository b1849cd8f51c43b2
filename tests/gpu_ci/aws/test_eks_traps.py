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
    SUBNET_A,
    SUBNET_B,
    args,
    group,
    nodes,
    problems,
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


def test_no_zone_is_asked_for_a_type_it_does_not_offer() -> None:
    types = ["g6.2xlarge"]
    assert nodes(instance_types=types)["subnetIds"] == [SUBNET_A, SUBNET_B]
    offered = {"g6.2xlarge": ["us-east-1b"]}
    (found,) = problems(instance_types=types, offerings=offered)
    assert (found.text, found.hint) == ("us-east-1a does not offer g6.2xlarge", "zones: [us-east-1b]")
    assert nodes(instance_types=types, offerings=offered, zones=["us-east-1b"])["subnetIds"] == [SUBNET_B]
