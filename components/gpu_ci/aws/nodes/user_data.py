"""What a node does before it joins: its container toolkit stops giving GPUs to containers that asked for none.

An image with NVIDIA_VISIBLE_DEVICES=all, as NVIDIA's CUDA images are, gets every GPU of its node where the toolkit
takes that variable from unprivileged containers, as it does unless it is told otherwise. These settings end that, and
let the device plugin name a container's GPUs by mounts instead; beside the plugin only pods have those that may mount
the node's files (NVIDIA/nvidia-container-toolkit@d34b304:internal/config/image/cuda_image.go).
"""

from __future__ import annotations

import base64

# EKS puts its own part with the cluster's address beside this one, and takes nothing but MIME multipart
# (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html, "Amazon EC2 user data"). The script runs before
# containerd and the kubelet start: nodeadm-run.service comes after cloud-final.service. It does not require it, so a
# script that only failed would let the node join (awslabs/amazon-eks-ami@81fec2e:templates/al2023/runtime/rootfs/etc/
# systemd/system/nodeadm-run.service); a machine that is off joins nothing, and its group starts another. The console is
# what remains of it: aws ec2 get-console-output.
_AL2023 = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
nvidia-ctk config --in-place \\
  --set accept-nvidia-visible-devices-envvar-when-unprivileged=false \\
  --set accept-nvidia-visible-devices-as-volume-mounts=true || {
  echo "gpu-ci: nvidia-ctk exited with $?, so this node does not join and turns itself off" >/dev/console
  systemctl poweroff
}

--//--
"""

# What it does anyway, said so that it stays (bottlerocket-os/bottlerocket-core-kit@db48620:
# packages/nvidia-container-toolkit/nvidia-container-toolkit-config-k8s; from 1.24 on in
# bottlerocket.dev/en/os/1.24.x/api/settings/nvidia-container-runtime). EKS adds the cluster's settings.
_BOTTLEROCKET = """\
[settings.nvidia-container-runtime]
visible-devices-as-volume-mounts = true
visible-devices-envvar-when-unprivileged = false
"""

_BY_SYSTEM = {"al2023": _AL2023, "bottlerocket": _BOTTLEROCKET}


def user_data(system: str) -> str:
    """As a launch template has it: in base64."""
    return base64.b64encode(_BY_SYSTEM[system].encode()).decode()
