"""The script of a node before it joins, which keeps GPUs from containers that did not request any."""

from __future__ import annotations

import base64
import email
import subprocess
import tomllib
from pathlib import Path

import gpu_catalog as catalog
import pytest
import yaml

from tests.gpu_ci.aws.node_groups import BLOCK, EFA, OWN_IMAGE, group, nodes, problems, template

BOTTLEROCKET = {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}
PARALLEL = {"parallel_image_pull": True, "disk_throughput_mib": 600}
ARM = {"instance_types": ["g5g.2xlarge"], "market": "standard"}
NVIDIA_CTK = """#!/bin/bash
printf '%s\\n' "$0" "$@" >> {said}
exit {code}
"""


def text(**changes: object) -> str:
    """The user data of a group with these changes."""
    return base64.b64decode(template(**changes)["userData"], validate=True).decode("ascii")


def script(**changes: object) -> str:
    """The one part of it, a script, as cloud-init takes it out."""
    message = email.message_from_string(text(**changes))
    assert (message.get_content_type(), message.defects) == ("multipart/mixed", [])
    [part] = message.get_payload()
    assert (part.get_content_type(), part.defects) == ("text/x-shellscript", [])
    return str(part.get_payload())


def runs(folder: Path, code: int) -> list[str]:
    """Return the commands of the script and their arguments if nvidia-ctk exits with this code."""
    said = folder / "said"
    for name in ("nvidia-ctk", "systemctl"):
        (folder / name).write_text(NVIDIA_CTK.format(said=said, code=code))
        (folder / name).chmod(0o755)
    (folder / "part-001").write_text(script().replace("/dev/console", f"{folder}/console"))
    subprocess.run(["/bin/bash", folder / "part-001"], env={"PATH": str(folder)}, check=False)
    return said.read_text().replace(f"{folder}/", "").splitlines()


def test_the_toolkit_of_al2023_is_told_whom_to_give_gpus_to_and_by_what(tmp_path: Path) -> None:
    assert script().startswith("#!/bin/bash\n")
    assert runs(tmp_path, 0) == [
        "nvidia-ctk",
        "config",
        "--in-place",
        "--set",
        "accept-nvidia-visible-devices-envvar-when-unprivileged=false",
        "--set",
        "accept-nvidia-visible-devices-as-volume-mounts=true",
    ]


def test_a_node_whose_toolkit_takes_it_not_turns_itself_off_before_it_joins(tmp_path: Path) -> None:
    assert runs(tmp_path, 3)[-2:] == ["systemctl", "poweroff"]
    assert (tmp_path / "console").read_text() == (
        "gpu-ci: nvidia-ctk exited with 3, so this node does not join and turns itself off\n"
    )


@pytest.mark.parametrize("changes", [BLOCK, EFA, ARM], ids=["capacity-block", "efa", "arm64"])
def test_every_group_of_al2023_has_the_same(changes: dict[str, object]) -> None:
    assert text(**changes) == text()


def test_bottlerocket_gets_the_settings_in_its_own_format() -> None:
    assert tomllib.loads(text(**BOTTLEROCKET)) == {
        "settings": {
            "nvidia-container-runtime": {
                "visible-devices-as-volume-mounts": True,
                "visible-devices-envvar-when-unprivileged": False,
            }
        }
    }


def test_parallel_pulls_are_a_second_part_for_nodeadm_after_the_same_script() -> None:
    message = email.message_from_string(text(**PARALLEL))
    assert (message.get_content_type(), message.defects) == ("multipart/mixed", [])
    first, second = message.get_payload()
    assert first.get_payload() == script()
    assert (second.get_content_type(), second.defects) == ("application/node.eks.aws", [])
    assert yaml.safe_load(second.get_payload()) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"featureGates": {"FastImagePull": True}},
    }


def test_bottlerocket_selects_the_same_pulls_by_its_settings() -> None:
    found = tomllib.loads(text(**BOTTLEROCKET, **PARALLEL))["settings"]
    without = tomllib.loads(text(**BOTTLEROCKET))["settings"]
    assert found == {
        **without,
        "container-runtime": {"snapshotter": "soci"},
        "container-runtime-plugins": {"soci-snapshotter": {"pull-mode": "parallel-pull-unpack"}},
    }


def test_every_image_a_group_takes_is_of_a_system_that_is_told() -> None:
    kinds = ({"instance_types": ["g6.2xlarge"]}, {"instance_types": ["g5g.2xlarge"]})
    taken = [each for each in catalog.ami_types() if not all(problems(ami_type=each.ami_type, **one) for one in kinds)]
    assert {each.os for each in taken} == {"al2023", "bottlerocket"}


def test_an_image_of_the_user_gets_the_script_and_what_a_node_needs_to_join() -> None:
    message = email.message_from_string(text(**OWN_IMAGE))
    assert (message.get_content_type(), message.defects) == ("multipart/mixed", [])
    of_script, config = message.get_payload()
    assert of_script.get_payload() == script()
    assert config.get_content_type() == "application/node.eks.aws"
    assert yaml.safe_load(config.get_payload()) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "ci",
                "apiServerEndpoint": "https://EXAMPLE.gr7.us-east-1.eks.amazonaws.com",
                "certificateAuthority": "LS0tLS1CRUdJTg==",
                "cidr": "172.20.0.0/16",
            },
            "kubelet": {
                "flags": [
                    (
                        "--node-labels=gpu-ci-pool=l4,k8s.amazonaws.com/accelerator=nvidia-l4,"
                        "nvidia.com/gpu.deploy.operands=false,nvidia.com/gpu.present=true"
                    ),
                    "--register-with-taints=nvidia.com/gpu=present:NoSchedule",
                ]
            },
        },
    }


def test_an_image_of_the_user_registers_with_the_taint_of_unproven_nodes() -> None:
    taints = "nvidia.com/gpu=present:NoSchedule,startup-taint.cluster-autoscaler.kubernetes.io/gpu-ci-unproven=true:"
    assert f"--register-with-taints={taints}NoSchedule\n" in text(**OWN_IMAGE, unproven=True)


def test_eks_gets_no_version_for_an_image_of_the_user() -> None:
    """EKS refuses a version or another AMI type: https://github.com/pulumi/pulumi-eks/issues/1283 and 1463."""
    assert template(**OWN_IMAGE)["imageId"] == "ami-0123456789abcdef0"
    given = nodes(**OWN_IMAGE)
    assert given["amiType"] == "CUSTOM"
    assert {"version", "releaseVersion"} & given.keys() == set()
    assert "imageId" not in template()


def test_the_image_of_the_user_is_tagged_before_nodes_use_it() -> None:
    deployment = group(**OWN_IMAGE)
    tag = deployment.one("ec2/tag:Tag")
    assert tag.inputs == {
        "resourceId": "ami-0123456789abcdef0",
        "key": "gpu-ci-in-use-stack-l4",
        "value": "true",
        "region": "us-east-1",
    }
    assert tag.urn in deployment.one(":NodeGroup").request.dependencies
    assert group().of("ec2/tag:Tag") == []
