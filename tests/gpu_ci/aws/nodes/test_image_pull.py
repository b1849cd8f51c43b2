"""The messages for node groups that would not pull images faster with parallelImagePull."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.aws.node_groups import OWN_IMAGE, args, problems, template

PARALLEL = {"parallel_image_pull": True, "disk_throughput_mib": 600}
BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}
TOO_SMALL = (
    "is for nodes with at least 8 vCPUs, but the pool has {}: unpacking layers in parallel needs CPUs and memory"
)
SLOW = (
    "requires diskThroughputMib of at least 600, but it is {}: on a slower disk, a pull can take longer than without "
    "parallelImagePull"
)
OLD = "requires a newer image: {} has no SOCI snapshotter"
LARGER, FASTER = (
    "use larger instance types, or remove parallelImagePull",
    "diskThroughputMib: 600, or instanceStore: true",
)
NEWER = "a release of AL2023 since 20250813, or Bottlerocket 1.44.0 or newer"


@pytest.mark.parametrize(
    ("changes", "text", "hint"),
    [
        ({"disk_throughput_mib": None}, SLOW.format(125), FASTER),
        ({"disk_throughput_mib": 599}, SLOW.format(599), FASTER),
        ({**BOTTLEROCKET, "disk_throughput_mib": 300}, SLOW.format(300), FASTER),
        ({"instance_types": ["g6.xlarge"]}, TOO_SMALL.format("g6.xlarge (4 vCPUs)"), LARGER),
        ({"instance_types": ["g6.xlarge", "g6.2xlarge"]}, TOO_SMALL.format("g6.xlarge (4 vCPUs)"), LARGER),
        (
            {"instance_types": ["g6f.large"], "market": "standard"},
            TOO_SMALL.format("g6f.large (2 vCPUs)"),
            LARGER,
        ),
        ({"release_version": "1.35.3-20250812"}, OLD.format("1.35.3-20250812"), NEWER),
        ({**BOTTLEROCKET, "release_version": "1.43.9-c9b02bd1"}, OLD.format("1.43.9-c9b02bd1"), NEWER),
        (
            OWN_IMAGE,
            "has no effect with amiId: images that were pulled into the image are not stored in the SOCI snapshotter",
            "remove one of the two",
        ),
        ({"parallel_image_pull": "true"}, "must be true or false", ""),
        ({"parallel_image_pull": 1}, "must be true or false", ""),
    ],
)
def test_a_group_that_would_not_pull_faster_is_refused(changes: dict[str, Any], text: str, hint: str) -> None:
    [problem] = problems(**{**PARALLEL, **changes})
    assert (problem.path, problem.text, problem.hint) == ("parallelImagePull", text, hint)


def test_another_mistake_is_reported_alone() -> None:
    assert [each.path for each in problems(parallel_image_pull=True, disk_throughput_mib=1000)] == ["diskThroughputMib"]
    assert [each.path for each in problems(**PARALLEL, instance_types=["g6.2xlrge"])] == ["instanceTypes[0]"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"instance_types": ["g5g.2xlarge"]},
        {"release_version": "1.35.3-20250813"},
        {**BOTTLEROCKET, "release_version": "1.44.0-c9b02bd1"},
        {**BOTTLEROCKET, "release_version": "2.0.0-c9b02bd1"},
    ],
)
def test_a_group_with_a_fast_disk_is_taken(changes: dict[str, Any]) -> None:
    assert args(**PARALLEL, **changes).parallel_image_pull is True


def test_the_default_changes_no_launch_template() -> None:
    assert template(parallel_image_pull=False) == template()


def test_the_disk_has_the_throughput() -> None:
    [disk] = template(**PARALLEL)["blockDeviceMappings"]
    assert (disk["ebs"]["volumeType"], disk["ebs"]["throughput"], disk["ebs"]["iops"]) == ("gp3", 600, 3000)
    system, images = template(**PARALLEL, **BOTTLEROCKET)["blockDeviceMappings"]
    assert "throughput" not in system["ebs"]
    assert images["ebs"]["throughput"] == 600
