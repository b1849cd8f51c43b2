"""The messages for node groups that would not pull images faster with parallelImagePull."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.aws.node_groups import args, template

PARALLEL = {"parallel_image_pull": True, "disk_throughput_mib": 600}
BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}


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
