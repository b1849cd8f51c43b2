"""The user data of a node. It configures NVIDIA's container toolkit, which gives containers access to GPUs.

By default, the toolkit reads the variable NVIDIA_VISIBLE_DEVICES of each container. NVIDIA's CUDA images set this
variable to `all`. A container of such an image gets every GPU of its node, even if it did not request any.

The user data turns this off for unprivileged containers. The device plugin then assigns GPUs by mounts. Apart from the
plugin, only pods that may mount files of the node can use such mounts
(NVIDIA/nvidia-container-toolkit@d34b304:internal/config/image/cuda_image.go).

With instanceStore, the user data combines the local NVMe disks and puts the folders of the kubelet and of containerd on
them. With parallelImagePull, it selects the SOCI snapshotter, which pulls the layers of an image in parallel.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import yaml

from ...kubernetes import gpu_nodes

# EKS accepts only MIME multipart, and, for its own images, adds a part with the cluster's address
# (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html, "Amazon EC2 user data"). The script runs before
# containerd and the kubelet start: nodeadm-run.service, which starts both, waits for cloud-final.service
# (awslabs/amazon-eks-ami@81fec2e:templates/al2023/runtime/rootfs/etc/systemd/system/nodeadm-run.service).
# nodeadm-run.service also starts both if the script fails. A script that fails therefore turns the machine off, and the
# Auto Scaling group starts another machine. aws ec2 get-console-output shows the message of the script.
_START = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

"""
_SCRIPT = """\
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
nvidia-ctk config --in-place \\
  --set accept-nvidia-visible-devices-envvar-when-unprivileged=false \\
  --set accept-nvidia-visible-devices-as-volume-mounts=true || {
  echo "gpu-ci: nvidia-ctk exited with $?, so this node does not join and turns itself off" >/dev/console
  systemctl poweroff
}

"""
_END = "--//--\n"
_NODE_CONFIG = """\
--//
Content-Type: application/node.eks.aws

"""
# nodeadm merges this part with the part that EKS adds (the same repository, nodeadm/doc/examples.md).
_PARALLEL = """\
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  featureGates:
    FastImagePull: true

"""

# nodeadm combines the disks, and moves the folders of the kubelet, of containerd, of SOCI and of the logs to the array
# (the same repository: nodeadm/doc/api.md, LocalStorageOptions; templates/al2023/runtime/bin/setup-local-disks).
_INSTANCE_STORE = """\
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0

"""

# These are Bottlerocket's defaults. They are set here in case a later release changes its defaults
# (bottlerocket-os/bottlerocket-core-kit@db48620:packages/nvidia-container-toolkit/nvidia-container-toolkit-config-k8s;
# from 1.24 on in bottlerocket.dev/en/os/1.24.x/api/settings/nvidia-container-runtime). EKS adds the cluster's settings.
_BOTTLEROCKET = """\
[settings.nvidia-container-runtime]
visible-devices-as-volume-mounts = true
visible-devices-envvar-when-unprivileged = false
"""
# bottlerocket.dev/en/os/1.53.x/api/settings/container-runtime-plugins
_BOTTLEROCKET_PARALLEL = """
[settings.container-runtime]
snapshotter = "soci"

[settings.container-runtime-plugins.soci-snapshotter]
pull-mode = "parallel-pull-unpack"
"""
# Karpenter uses the same commands for its instanceStorePolicy RAID0 (aws/karpenter-provider-aws,
# pkg/providers/amifamily/bootstrap/bottlerocketsettings.go). With essential, a node whose disks cannot be combined does
# not join the cluster.
_BOTTLEROCKET_INSTANCE_STORE = """
[settings.bootstrap-commands.instance-store]
commands = [
  ["apiclient", "ephemeral-storage", "init"],
  ["apiclient", "ephemeral-storage", "bind", "--dirs", {}],
]
essential = true
mode = "always"
"""
_BOTTLEROCKET_DIRS = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_BOTTLEROCKET_SOCI = "/var/lib/soci-snapshotter"


def user_data(system: str, *, parallel_image_pull: bool = False, instance_store: bool = False) -> str:
    """Return the user data for a launch template, in base64."""
    folders = (*_BOTTLEROCKET_DIRS, *([_BOTTLEROCKET_SOCI] if parallel_image_pull else ()))
    disks = {
        "al2023": _INSTANCE_STORE,
        "bottlerocket": _BOTTLEROCKET_INSTANCE_STORE.format(", ".join(f'"{each}"' for each in folders)),
    }[system]
    pulls = {"al2023": _PARALLEL, "bottlerocket": _BOTTLEROCKET_PARALLEL}[system]
    start, end = {"al2023": (f"{_START}{_SCRIPT}", _END), "bottlerocket": (_BOTTLEROCKET, "")}[system]
    text = f"{start}{disks if instance_store else ''}{pulls if parallel_image_pull else ''}{end}"
    return base64.b64encode(text.encode()).decode()


def user_data_of_own_image(
    cluster: str,
    endpoint: str,
    certificate: str,
    service_cidr: str,
    *,
    labels: Mapping[str, str],
    taints: Mapping[str, str],
    instance_store: bool = False,
) -> str:
    """Return the user data for an image that is not one of EKS's own, in base64.

    EKS adds nothing to it. The second part is the configuration of nodeadm, the program with which an AL2023 node joins
    (awslabs/amazon-eks-ami@81fec2e:nodeadm/doc/api.md, NodeConfig). The kubelet sets the labels and the taints
    itself, so that no other pod starts on the node before EKS has set them.
    """
    tainted = ",".join(f"{key}={value}:{gpu_nodes.TAINT_EFFECT}" for key, value in taints.items())
    listed = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": cluster,
                "apiServerEndpoint": endpoint,
                "certificateAuthority": certificate,
                "cidr": service_cidr,
            },
            "kubelet": {"flags": [f"--node-labels={listed}", f"--register-with-taints={tainted}"]},
        },
    }
    text = yaml.safe_dump(config, sort_keys=False, width=10_000)
    disks = _INSTANCE_STORE if instance_store else ""
    return base64.b64encode(f"{_START}{_SCRIPT}{disks}{_NODE_CONFIG}{text}\n{_END}".encode()).decode()
