"""Rules for managed node groups: what EKS would refuse, in its words where they are known."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws.ec2 import instance_types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon

TEMPLATE = {"launchTemplate": {"id": "lt-0a1b2c3d4e5f60718", "version": "1"}}
WITHOUT_TYPES = {"instanceTypes": None}
BLOCK = {"capacityType": "CAPACITY_BLOCK", **TEMPLATE, **WITHOUT_TYPES}

ACCEPTED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "one that runs": {"scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 2}},
    "sizes not known yet": {"scalingConfig": {"minSize": UNKNOWN, "desiredSize": 0, "maxSize": UNKNOWN}},
    "with a template": {**TEMPLATE, **WITHOUT_TYPES},
    "with a template by its name": {"launchTemplate": {"name": "l4", "version": "$Latest"}},
    "a template not known yet": {"launchTemplate": UNKNOWN},
    "of a reservation": {**BLOCK, "amiType": None},
    "several types of one architecture": {"instanceTypes": ["g6.xlarge", "g6.2xlarge", "g5.xlarge"]},
    "on arm": {"instanceTypes": ["g5g.xlarge"], "amiType": "AL2023_ARM_64_NVIDIA"},
    "Bottlerocket": {"amiType": "BOTTLEROCKET_x86_64_NVIDIA"},
    "spot": {"capacityType": "SPOT", "instanceTypes": ["g6.xlarge", "g6.2xlarge", "gr6.4xlarge"]},
    "a type nobody has a catalog of": {"instanceTypes": ["m7i.large"], "amiType": "AL2023_x86_64_STANDARD"},
    "labels": {"labels": {"nvidia.com/gpu.present": "true", "k8s.amazonaws.com/accelerator": "nvidia-l4", "empty": ""}},
    "labels a kubelet may set": {"labels": {"node.kubernetes.io/purpose": "ci", "kubernetes.io/os": "linux"}},
    "fifty taints": {"taints": [{"key": f"k{n}", "effect": "NO_SCHEDULE"} for n in range(50)]},
    "updates": {"updateConfig": {"maxUnavailable": 100, "updateStrategy": "MINIMAL"}},
    "repair": {"nodeRepairConfig": {"enabled": True, "maxUnhealthyNodeThresholdPercentage": 20}},
    "a warm pool": {"warmPoolConfig": {"poolState": "STOPPED", "minSize": 1}},
    "a prefix": {"nodeGroupName": None, "nodeGroupNamePrefix": "p" * 37},
    "types not known yet": {"instanceTypes": [UNKNOWN, "g6.xlarge"]},
}


def test_a_node_group_that_eks_takes_is_accepted(amazon: Amazon) -> None:
    assert {name: found for name, changes in ACCEPTED.items() if (found := amazon.node_group(**changes))} == {}


FIFTY_ONE = [{"key": f"k{n}", "effect": "NO_SCHEDULE"} for n in range(51)]
BOTH_NAMES = (
    "launchTemplate: You must specify either the launch template ID or the launch template name in the request, but "
    "not both."
)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a long name": (
        {"nodeGroupName": "n" * 64},
        [f"nodeGroupName: expected length of nodeGroupName to be in the range (0 - 63), got {'n' * 64}"],
    ),
    "a long prefix": (
        {"nodeGroupName": None, "nodeGroupNamePrefix": "p" * 38},
        [f"nodeGroupNamePrefix: expected length of nodeGroupNamePrefix to be in the range (0 - 37), got {'p' * 38}"],
    ),
    "a name and a prefix": (
        {"nodeGroupNamePrefix": "l4-"},
        ['nodeGroupName: "nodeGroupName": conflicts with nodeGroupNamePrefix'],
    ),
    "fewer than the least": (
        {"scalingConfig": {"minSize": 2, "desiredSize": 1, "maxSize": 4}},
        ["scalingConfig.minSize: minSize can't be greater than desiredSize: 2 is above 1"],
    ),
    "more than the most": (
        {"scalingConfig": {"minSize": 0, "desiredSize": 5, "maxSize": 4}},
        ["scalingConfig.desiredSize: desiredSize can't be greater than maxSize: 5 is above 4"],
    ),
    "twenty-one types": (
        {"instanceTypes": ["g6.xlarge"] * 21},
        ["instanceTypes: expected at most 20 instance types, got 21"],
    ),
    "a type that is nowhere": (
        {"instanceTypes": ["g6.3xlarge"]},
        [
            ("instanceTypes[0]: The following supplied instance types do not exist: [g6.3xlarge]\n"
            "  hint: the nearest in us-east-1 is g6.xlarge")
        ],
    ),
    "a type of other regions": (
        {"instanceTypes": ["p5e.48xlarge"]},
        [
            ("instanceTypes[0]: The following supplied instance types do not exist: [p5e.48xlarge]\n"
            "  hint: the nearest in us-east-1 is p5en.48xlarge; us-east-2 has it")
        ],
    ),
    "arm on an x86 image": (
        {"instanceTypes": ["g6.xlarge", "g5g.xlarge"]},
        [
            ("instanceTypes: [g5g.xlarge] is not a valid instance type for requested amiType AL2023_x86_64_NVIDIA\n"
            "  hint: AMI types for g5g.xlarge: AL2023_ARM_64_NVIDIA, BOTTLEROCKET_ARM_64_NVIDIA, "
            "BOTTLEROCKET_ARM_64_NVIDIA_FIPS")
        ],
    ),
    "x86 on Bottlerocket for arm": (
        {"amiType": "BOTTLEROCKET_ARM_64_NVIDIA", "instanceTypes": ["m7i.large"]},
        ["instanceTypes: [m7i.large] is not a valid instance type for requested amiType BOTTLEROCKET_ARM_64_NVIDIA"],
    ),
    "no type, which is t3.medium": (
        {"amiType": "AL2023_ARM_64_STANDARD", **WITHOUT_TYPES},
        ["instanceTypes: [t3.medium] is not a valid instance type for requested amiType AL2023_ARM_64_STANDARD"],
    ),
    "two architectures": (
        {"amiType": None, "instanceTypes": ["m7i.large", "m7g.large"]},
        [
            ("instanceTypes: expected instance types of one architecture, got several: m7i.large is x86_64, m7g.large "
            "is arm64")
        ],
    ),
    "a disk beside a template": ({**TEMPLATE, "diskSize": 100}, [
        "diskSize: Disk size must be specified within the launch template."
    ]),
    "remote access beside a template": ({**TEMPLATE, "remoteAccess": {"ec2SshKey": "me"}}, [
        "remoteAccess: Remote access configuration cannot be specified with a launch template."
    ]),
    "a template by id and name": (
        {"launchTemplate": {"id": "lt-0a1b2c3d4e5f60718", "name": "l4", "version": "1"}},
        [BOTH_NAMES],
    ),
    "a template by neither": ({"launchTemplate": {"version": "1"}}, [BOTH_NAMES]),
    "a template by an id that is none": (
        {"launchTemplate": {"id": "l4-nodes", "version": "1"}},
        ["launchTemplate.id: \"id\" must begin with 'lt-' and be comprised of only alphanumeric characters: l4-nodes"],
    ),
    "a reservation without a template": (
        {"capacityType": "CAPACITY_BLOCK", **WITHOUT_TYPES},
        [
            ("launchTemplate: Managed node groups with Capacity Blocks can only be created with custom launch "
            "templates\n  hint: name the reservation and the instance type in a launch template")
        ],
    ),
    "a reservation with types": (
        {**BLOCK, "instanceTypes": ["p5.48xlarge"]},
        ["instanceTypes: must be left out for CAPACITY_BLOCK: the launch template names the type"],
    ),
    "a reservation in two subnets": (
        {**BLOCK, "subnetIds": ["subnet-1", "subnet-2"]},
        ["subnetIds: expected the one subnet in the Availability Zone of the Capacity Block, got 2"],
    ),
    "a label of EKS": (
        {"labels": {"eks.amazonaws.com/nodegroup": "mine"}},
        [
            ('labels["eks.amazonaws.com/nodegroup"]: Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, '
            "eks.amazonaws.com/]")
        ],
    ),
    "a label that keeps nodes from joining": (
        {"labels": {"node-role.kubernetes.io/gpu": "true"}},
        [
            ('labels["node-role.kubernetes.io/gpu"]: NodeCreationFailure: Instances failed to join the kubernetes '
            "cluster: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: "
            "[node-role.kubernetes.io/gpu]")
        ],
    ),
    "a value that is no label's": (
        {"labels": {"team": "ml ops"}},
        [
            ("labels.team: Invalid value: ml ops : field must consist of alphanumeric characters, '-', '_' or '.', and "
            "must start and end with an alphanumeric character")
        ],
    ),
    "fifty-one taints": (
        {"taints": FIFTY_ONE},
        ["taints: Attribute taint supports 50 item maximum, but config has 51 declared."],
    ),
    "updates twice": (
        {"updateConfig": {"maxUnavailable": 1, "maxUnavailablePercentage": 10}},
        [
            ("updateConfig: expected exactly one of maxUnavailable and maxUnavailablePercentage, got "
             "maxUnavailable and "
            "maxUnavailablePercentage")
        ],
    ),
    "updates without a number": (
        {"updateConfig": {"updateStrategy": "MINIMAL"}},
        ["updateConfig: expected exactly one of maxUnavailable and maxUnavailablePercentage, got neither"],
    ),
    "too many at once": (
        {"updateConfig": {"maxUnavailable": 101}},
        ["updateConfig.maxUnavailable: expected maxUnavailable to be in the range (1 - 100), got 101"],
    ),
    "repair by number and percentage": (
        {"nodeRepairConfig": {"maxParallelNodesRepairedCount": 1, "maxParallelNodesRepairedPercentage": 10}},
        [
            ('nodeRepairConfig.maxParallelNodesRepairedCount: "maxParallelNodesRepairedCount": conflicts with '
            "maxParallelNodesRepairedPercentage")
        ],
    ),
    "repair that is none": (
        {
            "nodeRepairConfig": {
                "nodeRepairConfigOverrides": [
                    {
                        "nodeMonitoringCondition": "AcceleratedHardwareReady",
                        "nodeUnhealthyReason": "NvidiaXID64Error",
                        "minRepairWaitTimeMins": 0,
                        "repairAction": "Restart",
                    }
                ]
            }
        },
        [
            ("nodeRepairConfig.nodeRepairConfigOverrides[0].minRepairWaitTimeMins: expected "
             "minRepairWaitTimeMins to be "
            "at least (1), got 0"),
            ('nodeRepairConfig.nodeRepairConfigOverrides[0].repairAction: expected repairAction to be one of '
             '["Replace" '
            '"Reboot" "NoAction"], got Restart'),
        ],
    ),
    "Bottlerocket asleep": (
        {
            "amiType": "BOTTLEROCKET_x86_64_NVIDIA",
            "warmPoolConfig": {"poolState": "HIBERNATED", "reuseOnScaleIn": True},
        },
        [
            ("warmPoolConfig.poolState: Warm pool instances in the Hibernated state are not supported with "
             "Bottlerocket "
            "AMIs."),
            "warmPoolConfig.reuseOnScaleIn: This feature is not supported for Bottlerocket AMIs.",
        ],
    ),
    "a name of a cluster that can be none": (
        {"clusterName": "my cluster"},
        ['clusterName: "clusterName" ("my cluster") doesn\'t match regexp "^[0-9A-Za-z][A-Za-z0-9\\-_]*$"'],
    ),
    "a tag of Amazon's": (
        {"tags": {"aws:mine": "x"}},
        ['tags["aws:mine"]: tag keys that begin with aws: are reserved for AWS'],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_node_group_that_eks_refuses_is_refused(amazon: Amazon, changes: dict[str, Any], expected: list[str]) -> None:
    assert amazon.node_group(**changes) == expected


def test_a_region_of_ones_own_is_the_one_that_counts(amazon: Amazon) -> None:
    assert amazon.node_group(instanceTypes=["p5e.48xlarge"], region="us-east-2") == []
    assert amazon.node_group(instanceTypes=["never.heard"], region="xx-nowhere-1") == []


def test_all_problems_are_reported_at_once(amazon: Amazon) -> None:
    wrong = {"scalingConfig": {"minSize": 2, "desiredSize": 1, "maxSize": 0}, "diskSize": 100, **TEMPLATE}
    assert [one.partition(":")[0] for one in amazon.node_group(**wrong)] == [
        "scalingConfig.maxSize", "scalingConfig.minSize", "scalingConfig.desiredSize", "diskSize",
    ]  # fmt: skip


ARCHITECTURES = {
    "g6.xlarge": "x86_64", "g5g.xlarge": "arm64", "p6e-gb200.36xlarge": "arm64", "p6-b200.48xlarge": "x86_64",
    "t3.medium": "x86_64", "t4g.small": "arm64", "a1.large": "arm64", "im4gn.large": "arm64", "is4gen.large": "arm64",
    "u7i-12tb.224xlarge": "x86_64", "trn1.2xlarge": "x86_64", "x2iezn.2xlarge": "x86_64", "nonsense": "",
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_name_of_a_type_tells_its_architecture(name: str) -> None:
    assert instance_types.architecture(name) == ARCHITECTURES[name]


def test_the_node_group_that_the_tests_change_is_read_with_nothing_missing() -> None:
    assert sorted(NODE_GROUP) == [
        "amiType", "clusterName", "instanceTypes", "nodeGroupName", "nodeRoleArn", "scalingConfig", "subnetIds",
    ]  # fmt: skip
