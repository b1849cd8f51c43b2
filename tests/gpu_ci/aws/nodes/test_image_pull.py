"""The messages for node groups that would not pull images faster with parallelImagePull."""

from __future__ import annotations

from tests.gpu_ci.aws.node_groups import template

PARALLEL = {"parallel_image_pull": True, "disk_throughput_mib": 600}
BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}


def test_the_disk_has_the_throughput() -> None:
    [disk] = template(**PARALLEL)["blockDeviceMappings"]
    assert (disk["ebs"]["volumeType"], disk["ebs"]["throughput"], disk["ebs"]["iops"]) == ("gp3", 600, 3000)
    system, images = template(**PARALLEL, **BOTTLEROCKET)["blockDeviceMappings"]
    assert "throughput" not in system["ebs"]
    assert images["ebs"]["throughput"] == 600
