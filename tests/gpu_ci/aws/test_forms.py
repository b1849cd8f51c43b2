"""The messages for arguments of a node group in a wrong format."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.aws.node_groups import problems


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"max": None}, "max", "is missing"),
        ({"max": 0}, "max", "must be at least 1"),
        ({"max": 1001}, "max", "must be at most 1000"),
        ({"max": "four"}, "max", "must be a whole number"),
        ({"instance_types": []}, "instanceTypes", "needs at least one"),
        ({"zones": []}, "zones", "needs at least one"),
        ({"subnets": {}}, "subnets", "needs at least one"),
        ({"subnets": {"us-east-1a": "subnet-1"}}, "subnets.us-east-1a", "has a form that is not accepted"),
        ({"market": "on-demand"}, "market", "must be one of 'spot', 'standard' or 'capacity-block'"),
        ({"region": "us-east"}, "region", "has a form that is not accepted"),
        ({"cluster_name": "-ci"}, "clusterName", "has a form that is not accepted"),
        ({"kubernetes_version": "v1.35"}, "kubernetesVersion", "has a form that is not accepted"),
        ({"kubernetes_version": "1.35.3"}, "kubernetesVersion", "has a form that is not accepted"),
        ({"torch": "2.14"}, "torch", "has a form that is not accepted"),
        ({"kms_key_arn": "alias/ci"}, "kmsKeyArn", "has a form that is not accepted"),
        (
            {"kms_key_arn": "arn:aws:kms:us-west-2:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"},
            "kmsKeyArn",
            "is a key of another region than the disks",
        ),
        ({"vpc_id": "vpc"}, "vpcId", "has a form that is not accepted"),
        ({"cluster_security_group_id": "sg"}, "clusterSecurityGroupId", "has a form that is not accepted"),
        ({"disk_gib": 29}, "diskGib", "must be at least 30"),
        ({"disk_gib": 65_537}, "diskGib", "must be at most 65536"),
        ({"disk_iops": 2_999}, "diskIops", "must be at least 3000"),
        ({"disk_gib": 200, "disk_iops": 80_001}, "diskIops", "must be at most 80000"),
        ({"disk_throughput_mib": 124}, "diskThroughputMib", "must be at least 125"),
        (
            {"disk_gib": 200, "disk_iops": 80_000, "disk_throughput_mib": 2_001},
            "diskThroughputMib",
            "must be at most 2000",
        ),
        ({"metadata_hop_limit": 3}, "metadataHopLimit", "must be at most 2"),
        ({"metadata_hop_limit": 0}, "metadataHopLimit", "must be at least 1"),
        ({"efa": "yes"}, "efa", "must be true or false"),
        ({"node_repair": 1}, "nodeRepair", "must be true or false"),
        ({"tags": {"#": "x"}}, 'tags["#"]', "the key is not valid in AWS"),
        ({"tags": {"x": "#"}}, "tags.x", "is not a valid tag value in AWS"),
        ({"tags": {"x" * 129: ""}}, f"tags.{'x' * 129}", "the key is not valid in AWS"),
    ],
)
def test_a_value_of_the_wrong_form_is_reported_with_the_right_form(
    changes: dict[str, Any], path: str, text: str
) -> None:
    (found,) = problems(**changes)
    assert (found.path, found.text, bool(found.expected)) == (path, text, True)


def test_too_many_types_are_reported_together_with_the_problems_of_each() -> None:
    too_many, *twice = problems(instance_types=["g6.xlarge"] * 21)
    assert (too_many.path, too_many.text) == ("instanceTypes", "must have at most 20 entries")
    assert [(each.path, each.text) for each in twice] == [
        (f"instanceTypes[{at}]", "is a duplicate") for at in range(1, 21)
    ]
