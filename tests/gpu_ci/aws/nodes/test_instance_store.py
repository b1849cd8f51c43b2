"""Nodes that keep images and the files of pods on the local NVMe disks of their instance."""

from __future__ import annotations

import base64
import email
import tomllib
from typing import Any

import pytest
import yaml

from tests.gpu_ci.aws.node_groups import OWN_IMAGE, args, group, scaling_tags, template

STORE = {"instance_store": True}
BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}
CONFIG = {
    "apiVersion": "node.eks.aws/v1alpha1",
    "kind": "NodeConfig",
    "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
}
DISK_TAG = "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage"


def text(**changes: Any) -> str:
    return base64.b64decode(template(**changes)["userData"]).decode()


def configs(**changes: Any) -> list[Any]:
    """Return the parts of the user data for nodeadm."""
    parts = email.message_from_string(text(**changes)).get_payload()
    return [yaml.safe_load(one.get_payload()) for one in parts if one.get_content_type().endswith("node.eks.aws")]


def test_nodeadm_combines_the_disks_in_a_part_of_its_own() -> None:
    assert configs(**STORE) == [CONFIG]
    assert configs() == []


def test_an_image_of_the_user_gets_the_part_before_the_address_of_the_cluster() -> None:
    first, second = configs(**OWN_IMAGE, **STORE)
    assert first == CONFIG
    assert second["spec"]["cluster"]["name"] == "ci"


@pytest.mark.parametrize(
    ("changes", "more"), [({}, []), ({"parallel_image_pull": True}, ["/var/lib/soci-snapshotter"])]
)
def test_bottlerocket_combines_the_disks_at_each_boot_or_does_not_join(
    changes: dict[str, Any], more: list[str]
) -> None:
    settings = tomllib.loads(text(**BOTTLEROCKET, **STORE, **changes))["settings"]
    folders = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods", *more]
    assert settings["bootstrap-commands"] == {
        "instance-store": {
            "commands": [
                ["apiclient", "ephemeral-storage", "init"],
                ["apiclient", "ephemeral-storage", "bind", "--dirs", *folders],
            ],
            "essential": True,
            "mode": "always",
        }
    }


def test_the_autoscaler_knows_the_smallest_instance_store_of_the_types() -> None:
    assert args(**STORE).pod_disk_gib == 410  # 98 % of the 419.1 GiB of g6.2xlarge
    assert scaling_tags(group(**STORE))[DISK_TAG] == "368Gi"
    assert scaling_tags(group())[DISK_TAG] == "89Gi"


def test_parallel_pulls_need_no_fast_ebs_disk_with_an_instance_store() -> None:
    assert args(**STORE, parallel_image_pull=True).parallel_image_pull is True
    [config, pulls] = configs(**STORE, parallel_image_pull=True)
    assert config == CONFIG
    assert pulls["spec"] == {"featureGates": {"FastImagePull": True}}
