"""The user data of a node, which stops its container toolkit from giving GPUs to containers that did not request any.

By default the toolkit reads the variable NVIDIA_VISIBLE_DEVICES of unprivileged containers. An image that sets it to
`all`, as NVIDIA's CUDA images do, then gets every GPU of its node. These settings end that. They let the device plugin
assign a container's GPUs by mounts instead. Apart from the plugin, only pods that may mount files of the node can use
such mounts (NVIDIA/nvidia-container-toolkit@d34b304:internal/config/image/cuda_image.go).
"""

from __future__ import annotations

import base64

# EKS adds a part with the cluster's address, and accepts only MIME multipart
# (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html, "Amazon EC2 user data"). The script runs before
# containerd and the kubelet start, because nodeadm-run.service comes after cloud-final.service. That service does not
# require the script's success, so after a mere failure the node would join
# (awslabs/amazon-eks-ami@81fec2e:templates/al2023/runtime/rootfs/etc/ systemd/system/nodeadm-run.service). The script
# therefore turns the machine off, and its group starts another. Its message stays readable with aws ec2
# get-console-output.
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

# These are the defaults, set explicitly so that they do not change (bottlerocket-os/bottlerocket-core-kit@db48620:
# packages/nvidia-container-toolkit/nvidia-container-toolkit-config-k8s; from 1.24 on in
# bottlerocket.dev/en/os/1.24.x/api/settings/nvidia-container-runtime). EKS adds the cluster's settings.
_BOTTLEROCKET = """\
[settings.nvidia-container-runtime]
visible-devices-as-volume-mounts = true
visible-devices-envvar-when-unprivileged = false
"""

_BY_SYSTEM = {"al2023": _AL2023, "bottlerocket": _BOTTLEROCKET}


def user_data(system: str) -> str:
    """Return the user data for a launch template, in base64."""
    return base64.b64encode(_BY_SYSTEM[system].encode()).decode()
