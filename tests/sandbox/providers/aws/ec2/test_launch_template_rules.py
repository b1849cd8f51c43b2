"""Rules for launch templates, for what else EC2 has of a node, and for where its types are."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import Amazon


def disk(**ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


def card(index: int, device: int, kind: str) -> dict[str, Any]:
    return {"networkCardIndex": index, "deviceIndex": device, "interfaceType": kind}


EFA = [card(0, 0, "interface"), card(0, 1, "efa-only"), *(card(index, 0, "efa-only") for index in range(1, 32))]

ACCEPTED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without a type": {"instanceType": None},
    "a type not known yet": {"instanceType": UNKNOWN},
    "a fast disk": disk(volumeType="gp3", volumeSize=200, iops=16000, throughput=1000),
    "a small disk of what every one has": disk(volumeType="gp3", volumeSize=1, iops=3000, throughput=125),
    "a disk of the fastest": disk(volumeType="io2", volumeSize=256, iops=256000),
    "a disk from a snapshot": disk(snapshotId="snap-1", volumeInitializationRate=300),
    "a disk not known yet": disk(volumeType=UNKNOWN, volumeSize=UNKNOWN, iops=UNKNOWN, throughput=1000),
    "all the cards of a p5": {"instanceType": "p5.48xlarge", "networkInterfaces": EFA},
    "cards of what nobody knows": {"instanceType": UNKNOWN, "networkInterfaces": EFA},
    "a card not known yet": {"networkInterfaces": [{"deviceIndex": UNKNOWN}, {"deviceIndex": UNKNOWN}]},
    "a capacity block": {
        "instanceType": "p5.48xlarge",
        "instanceMarketOptions": {"marketType": "capacity-block"},
        "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": "cr-1"}},
    },
    "tags of what is launched": {"tagSpecifications": [{"resourceType": "volume", "tags": {"team": "ci"}}]},
    "a prefix": {"name": None, "namePrefix": "p" * 99},
}


def test_a_launch_template_that_ec2_takes_is_accepted(amazon: Amazon) -> None:
    assert {name: found for name, changes in ACCEPTED.items() if (found := amazon.template(**changes))} == {}


EBS = "blockDeviceMappings[0].ebs"
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a short name": ({"name": "l4"}, ['name: "name" cannot be less than 3 characters']),
    "a long name": ({"name": "n" * 126}, ['name: "name" cannot be longer than 125 characters']),
    "a long prefix": (
        {"name": None, "namePrefix": "p" * 100},
        ['namePrefix: "namePrefix" cannot be longer than 99 characters, name is limited to 125'],
    ),
    "a name of other letters": (
        {"name": "l4 nodes"},
        ['name: "name" can only alphanumeric characters and ()./_- symbols'],
    ),
    "a long description": (
        {"description": "d" * 256},
        ["description: expected length of description to be in the range (0 - 255), got 256"],
    ),
    "a switch that is neither": (
        {"ebsOptimized": "yes", **disk(encrypted="on")},
        [
            "ebsOptimized: expected ebsOptimized to be one of '', 'true', or 'false', got 'yes'",
            f"{EBS}.encrypted: expected encrypted to be one of '', 'true', or 'false', got 'on'",
        ],
    ),
    "a type and requirements": (
        {"instanceRequirements": {"memoryMib": {"min": 1}, "vcpuCount": {"min": 1}}},
        ['instanceRequirements: "instanceRequirements": conflicts with instanceType'],
    ),
    "a reservation and a group of them": (
        {
            "capacityReservationSpecification": {
                "capacityReservationTarget": {
                    "capacityReservationId": "cr-1",
                    "capacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:123456789012:group/ci",
                }
            }
        },
        [
            (
                "capacityReservationSpecification.capacityReservationTarget.capacityReservationId: "
                '"capacityReservationId": conflicts with capacityReservationResourceGroupArn'
            )
        ],
    ),
    "slow throughput": (
        disk(volumeType="gp3", throughput=100),
        [f"{EBS}.throughput: expected throughput to be in the range (125 - 2000), got 100"],
    ),
    "too many operations": (
        disk(volumeType="gp3", volumeSize=1000, iops=80001),
        [f"{EBS}.iops: expected iops to be in the range (3000 - 80000), got 80001"],
    ),
    "operations of a gp2": (
        disk(volumeType="gp2", iops=3000),
        [f"{EBS}.iops: The parameter iops is not supported for gp2 volumes."],
    ),
    "an io2 without operations": (
        disk(volumeType="io2", volumeSize=100),
        [f"{EBS}.iops: The parameter iops must be specified for io2 volumes."],
    ),
    "throughput of an io1": (
        disk(volumeType="io1", volumeSize=100, iops=100, throughput=125),
        [f"{EBS}.throughput: throughput can only be specified for volumeType gp3."],
    ),
    "a small disk that is fast": (
        disk(volumeType="gp3", volumeSize=20, iops=15000),
        [f"{EBS}.iops: Iops to volume size ratio of 750.000000 is too high; maximum is 500"],
    ),
    "throughput beyond its operations": (
        disk(volumeType="gp3", throughput=1000),
        [
            (
                f"{EBS}.throughput: Throughput (MiBps) to iops ratio of 0.333333 is too high; maximum is 0.250000 "
                "MiBps per iops\n  hint: 1000 MiB/s need iops of 4000 or more"
            )
        ],
    ),
    "a disk that is too large": (
        disk(volumeType="gp2", volumeSize=16385),
        [f"{EBS}.volumeSize: expected volumeSize to be in the range (1 - 16384), got 16385"],
    ),
    "a far hop": (
        {"metadataOptions": {"httpPutResponseHopLimit": 65}},
        [
            (
                "metadataOptions.httpPutResponseHopLimit: expected httpPutResponseHopLimit to be in the range (1 - "
                "64), got "
                "65"
            )
        ],
    ),
    "tags of what a launch does not make": (
        {"tagSpecifications": [{"resourceType": "vpc", "tags": {}}]},
        [
            (
                "tagSpecifications[0].resourceType: expected one of instance, volume, network-interface, "
                "spot-instances-request in a launch template, got vpc"
            )
        ],
    ),
    "a block of what is sold in none": (
        {"instanceMarketOptions": {"marketType": "capacity-block"}},
        ["instanceType: g6.xlarge is not offered as CAPACITY_BLOCK; it is offered as ON_DEMAND, SPOT"],
    ),
    "spot options of a block": (
        {
            "instanceType": "p5.48xlarge",
            "instanceMarketOptions": {"marketType": "capacity-block", "spotOptions": {"maxPrice": "1"}},
        },
        ["instanceMarketOptions.spotOptions: must be left out when marketType is capacity-block"],
    ),
    "a type that is not there": (
        {"instanceType": "g9.xlarge"},
        [
            (
                "instanceType: The specified instance type g9.xlarge is not valid\n"
                "  hint: the nearest in us-east-1 is g6.xlarge"
            )
        ],
    ),
    "two interfaces in one place": (
        {"networkInterfaces": [card(0, 0, "interface"), card(0, 0, "interface")]},
        ["networkInterfaces: 2 interfaces on network card 0, device 0: each must have its own place"],
    ),
    "no primary interface": (
        {"networkInterfaces": [card(0, 1, "interface")]},
        ["networkInterfaces: one interface must be the primary: network card 0, device 0"],
    ),
    "a primary one for EFA only": (
        {"instanceType": "p5.48xlarge", "networkInterfaces": [card(0, 0, "efa-only")]},
        [
            (
                "networkInterfaces[0].interfaceType: You can't use an EFA-only network interface as the primary "
                "network interface."
            )
        ],
    ),
    "an interface that is none": (
        {"networkInterfaces": [card(0, 0, "trunk")]},
        [
            (
                'networkInterfaces[0].interfaceType: expected interfaceType to be one of ["interface" "efa" '
                '"efa-only"], got '
                "trunk"
            )
        ],
    ),
    "EFA where there is none": (
        {"networkInterfaces": [card(0, 0, "efa")]},
        ["networkInterfaces: g6.xlarge has no EFA interfaces, got 1"],
    ),
    "more EFAs than a machine has": (
        {"instanceType": "p5.48xlarge", "networkInterfaces": [*EFA, card(32, 0, "efa-only")]},
        ["networkInterfaces: p5.48xlarge has 32 EFA interfaces, got 33"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_launch_template_that_ec2_refuses_is_refused(
    amazon: Amazon, changes: dict[str, Any], expected: list[str]
) -> None:
    assert amazon.template(**changes) == expected


def test_a_placement_group_has_parts_only_as_its_strategy_says(amazon: Amazon) -> None:
    assert amazon.problems(types.PLACEMENT_GROUP, {"strategy": "cluster"}) == []
    assert amazon.problems(types.PLACEMENT_GROUP, {"strategy": "partition", "partitionCount": 7}) == []
    wrong = {"strategy": "cluster", "partitionCount": 8, "spreadLevel": "rack"}
    assert amazon.problems(types.PLACEMENT_GROUP, wrong) == [
        "partitionCount: expected partition_count to be in the range (0 - 7), got 8",
        'partitionCount: partition_count must not be set when strategy = "cluster"',
        'spreadLevel: spread_level must not be set when strategy = "cluster"',
    ]


def test_a_reservation_is_of_a_type_the_region_has(amazon: Amazon) -> None:
    reservation = {
        "availabilityZone": "us-east-1a",
        "instanceCount": 1,
        "instancePlatform": "Linux/UNIX",
        "instanceType": "p5.48xlarge",
    }
    assert amazon.problems(types.CAPACITY_RESERVATION, reservation) == []
    assert amazon.problems(types.CAPACITY_RESERVATION, {**reservation, "instanceType": "p5e.48xlarge"}) == [
        (
            "instanceType: The specified instance type p5e.48xlarge is not valid\n"
            "  hint: the nearest in us-east-1 is p5en.48xlarge; us-east-2 has it"
        )
    ]
