"""The messages for node groups with an invalid image, torch, disk or tags, and for keys that a user cannot set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.aws.node_groups import OWN_IMAGE, P3DN, problems


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"),
    [
        (
            {"ami_type": "AL2_x86_64_GPU"},
            "amiType",
            "is not compatible: g6.2xlarge: AL2_x86_64_GPU has had no new images since 2025-11-26",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "AL2023_x86_64_STANDARD"},
            "amiType",
            "is not compatible: g6.2xlarge: AL2023_x86_64_STANDARD has no NVIDIA driver",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "AL2023_x86_64_NEURON"},
            "amiType",
            "is not compatible: g6.2xlarge: AL2023_x86_64_NEURON has no NVIDIA driver",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "BOTTLEROCKET_x86_64"},
            "amiType",
            "is not compatible: g6.2xlarge: BOTTLEROCKET_x86_64 has no NVIDIA driver",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "WINDOWS_CORE_2022_x86_64"},
            "amiType",
            "is not compatible: g6.2xlarge: WINDOWS_CORE_2022_x86_64 has no NVIDIA driver",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "AL2023_ARM_64_NVIDIA"},
            "amiType",
            "is not compatible: g6.2xlarge: AL2023_ARM_64_NVIDIA is for arm64, and g6.2xlarge is x86_64",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "AL2023_x86_64_NVIDEA"},
            "amiType",
            "is not an AMI type of EKS",
            "did you mean AL2023_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "CUSTOM"},
            "amiType",
            "is set by amiId, which names the image",
            "remove it, and set amiId for an image of your own",
        ),
        (
            {"instance_types": ["g7.2xlarge"], "ami_type": "BOTTLEROCKET_x86_64_NVIDIA"},
            "amiType",
            "is not compatible: g7.2xlarge: BOTTLEROCKET_x86_64_NVIDIA is not for g7: take AL2023_x86_64_NVIDIA",
            "amiType: AL2023_x86_64_NVIDIA",
        ),
        (
            {"instance_types": ["g5g.xlarge"], "ami_type": "AL2023_x86_64_NVIDIA"},
            "amiType",
            "is not compatible: g5g.xlarge: AL2023_x86_64_NVIDIA is for x86_64, and g5g.xlarge is arm64",
            "amiType: AL2023_ARM_64_NVIDIA",
        ),
        (
            {"instance_types": ["p3dn.24xlarge"]},
            "releaseVersion",
            (
                "is missing: R580 is the last driver that supports the V100 32GB, but by default nodes use EKS's "
                "newest release"
            ),
            (
                "use a release with driver 580, in the format of 1.35.3-20260917; "
                "github.com/awslabs/amazon-eks-ami/releases lists them"
            ),
        ),
        (
            {**OWN_IMAGE, "ami_id": "ami-123"},
            "amiId",
            "has a form that is not accepted",
            "such as amiId: ami-0123456789abcdef0",
        ),
        (
            {**OWN_IMAGE, "ami_type": "BOTTLEROCKET_x86_64_NVIDIA"},
            "amiId",
            "is for images of AL2023, but amiType is BOTTLEROCKET_x86_64_NVIDIA",
            "remove amiType",
        ),
        (
            {**OWN_IMAGE, "release_version": "1.35.3-20260917"},
            "releaseVersion",
            "is for images of EKS, but amiId names an image of your own",
            "remove one of the two",
        ),
        (
            {**OWN_IMAGE, "service_cidr": None},
            "serviceCidr",
            "is missing; amiId requires it",
            "use the value of the cluster",
        ),
        (
            {"release_version": "v20260917"},
            "releaseVersion",
            "is not a release of AL2023_x86_64_NVIDIA",
            "github.com/awslabs/amazon-eks-ami/releases lists them",
        ),
        (
            {"release_version": "1.34.2-20260917"},
            "releaseVersion",
            "is for Kubernetes 1.34, but the cluster has 1.35",
            "github.com/awslabs/amazon-eks-ami/releases lists them",
        ),
        (
            {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA", "release_version": "1.35.3-20260917"},
            "releaseVersion",
            "is not a release of BOTTLEROCKET_x86_64_NVIDIA",
            "github.com/bottlerocket-os/bottlerocket/releases lists them",
        ),
        (
            {"release_version": "1.64.0-c9b02bd1"},
            "releaseVersion",
            "is not a release of AL2023_x86_64_NVIDIA",
            "github.com/awslabs/amazon-eks-ami/releases lists them",
        ),
        (
            {"instance_types": ["g7.2xlarge"], "release_version": "1.35.1-20260714"},
            "releaseVersion",
            (
                "has at most driver 580: driver branch 580 does not support the RTX PRO 4500: the first branch "
                "that does is 595"
            ),
            "a release of 20260917 or later",
        ),
        (
            {"instance_types": ["g7e.2xlarge"], "torch": "2.4.0+cu121"},
            "torch",
            (
                "does not run on g7e.2xlarge: torch 2.4.0+cu121 has no kernels for compute capability 12.0: it has "
                "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
            ),
            "torch: 2.7.0+cu128",
        ),
        (
            {"torch": "2.14.0+cu999"},
            "torch",
            "does not run on g6.2xlarge: torch 2.14.0 has no cu999 wheel for x86_64: it has cu126, cu129, cu130, cu132",
            "torch: 2.14.0+cu130",
        ),
        (
            {**P3DN, "torch": "2.15.0"},
            "torch",
            (
                "does not run on p3dn.24xlarge: torch 2.15.0+cu132 has no kernels for compute capability 7.0: it has "
                "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
            ),
            "torch: 2.14.0+cu126",
        ),
        ({"disk_iops": 60000}, "diskIops", "is more than 500 per GiB", "diskGib: 120, or lower diskIops"),
        (
            {"disk_gib": 30, "disk_iops": 15001},
            "diskIops",
            "is more than 500 per GiB",
            "diskGib: 31, or lower diskIops",
        ),
        (
            {"disk_throughput_mib": 1000},
            "diskThroughputMib",
            "is more than a quarter of diskIops",
            "diskIops: 4000, or lower the throughput",
        ),
        (
            {"disk_iops": 4000, "disk_throughput_mib": 1001},
            "diskThroughputMib",
            "is more than a quarter of diskIops",
            "diskIops: 4004, or lower the throughput",
        ),
        (
            {"tags": {"aws:owner": "ml"}},
            'tags["aws:owner"]',
            "keys that start with aws: are reserved for AWS",
            "rename it",
        ),
        (
            {"tags": {"AWS:owner": "ml"}},
            'tags["AWS:owner"]',
            "keys that start with aws: are reserved for AWS",
            "rename it",
        ),
        (
            {"tags": {"gpu-ci-pool": "x"}},
            "tags.gpu-ci-pool",
            "keys that start with gpu-ci- are reserved for this package",
            "rename it",
        ),
        (
            {"tags": {str(number): "" for number in range(47)}},
            "tags",
            "has more than 46 tags",
            "a resource has at most 50",
        ),
        (
            {"capacityType": "SPOT"},
            "capacityType",
            "cannot be set",
            "remove it: market sets the value: spot, standard or capacity-block",
        ),
        (
            {"desiredSize": 2},
            "desiredSize",
            "cannot be set",
            "remove it: a group starts without nodes, and an autoscaler then sets its size",
        ),
        (
            {"minSize": 1},
            "minSize",
            "cannot be set",
            "remove it: the value is always 0, so that an idle group costs nothing",
        ),
        ({"maxSize": 9}, "maxSize", "cannot be set", "remove it: use max instead"),
        (
            {"diskSize": 50},
            "diskSize",
            "cannot be set",
            "remove it: use diskGib instead, because EKS does not accept diskSize with a launch template",
        ),
        (
            {"remoteAccess": {}},
            "remoteAccess",
            "cannot be set",
            "remove it: nodes have no SSH access; sessionManager allows a shell without an open port or a key",
        ),
        (
            {"imageId": "ami-1"},
            "imageId",
            "cannot be set",
            "remove it: use amiId instead, which takes an image that an image pipeline built",
        ),
        (
            {"labels": {}},
            "labels",
            "cannot be set",
            "remove it: nodes of every cloud have the same labels, so that pods find them",
        ),
        (
            {"taints": []},
            "taints",
            "cannot be set",
            "remove it: nodes of every cloud have the same taint, so that only pods that tolerate it start there",
        ),
        (
            {"warmPoolConfig": {}},
            "warmPoolConfig",
            "cannot be set",
            "remove it: a stopped node reserves no GPU, so its start can fail for lack of capacity",
        ),
        ({"maxx": 3}, "maxx", "unknown key", "did you mean max"),
    ],
)
def test_one_mistake_is_one_problem_with_one_hint(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    (found,) = problems(**changes)
    assert (found.path, found.text, found.hint) == (path, text, hint)
