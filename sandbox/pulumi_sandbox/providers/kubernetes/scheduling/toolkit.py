"""Compute the GPUs that a container sees, from the settings of NVIDIA's container toolkit and device plugin.

Sources: NVIDIA/nvidia-container-toolkit@d34b304, internal/config/image/cuda_image.go; NVIDIA/k8s-device-plugin@7774fe3,
internal/plugin/server.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import quantity
from pulumi_sandbox.providers.kubernetes.objects import inner, variable

GPU = "nvidia.com/gpu"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Toolkit:
    """The ways in which an unprivileged container may request GPUs: by an environment variable, or by volume mounts."""

    by_variable: bool
    by_mounts: bool


# The settings of NVIDIA's own packages.
PACKAGED = Toolkit(by_variable=True, by_mounts=False)
# Bottlerocket (bottlerocket-os/bottlerocket-core-kit@db48620, packages/nvidia-container-toolkit/
# nvidia-container-toolkit-config-k8s), and GKE, which has no toolkit: its device plugin adds the devices of the
# requested GPUs (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus).
BY_MOUNTS = Toolkit(by_variable=False, by_mounts=True)
# The two settings, in config.toml, in a command that changes it, or in Bottlerocket's settings.
_SETTING = re.compile(r"visible-devices-(envvar-when-unprivileged|as-volume-mounts) *= *(true|false)\b")


def toolkit(ami: str, user_data: Any) -> Toolkit:
    """Return the toolkit settings of an image with the changes of the user data.

    Releases of AL2023 differ; the sandbox assumes the less restrictive setting.
    """
    default = BY_MOUNTS if ami.startswith("BOTTLEROCKET_") else PACKAGED
    settings = {name: value == "true" for name, value in _SETTING.findall(text_of(user_data))}
    return Toolkit(
        by_variable=settings.get("envvar-when-unprivileged", default.by_variable),
        by_mounts=settings.get("as-volume-mounts", default.by_mounts),
    )


def text_of(user_data: Any) -> str:
    """Return the text of user data in base64."""
    try:
        return base64.b64decode(str(user_data or ""), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""  # a secret, stored as a digest


def gpus(container: Mapping[str, Any], toolkit_settings: Toolkit, strategies: Collection[str], on_node: int) -> int:
    """Return the number of GPUs that a container sees. Variables of its image are unknown and do not count."""
    if inner(container, "securityContext", "privileged") is True:
        return on_node
    requested = int(quantity(inner(container, "resources", "limits", GPU)) or 0)
    sees_all = toolkit_settings.by_variable and variable(container, VARIABLE) == "all"
    if not requested:
        return on_node if sees_all else 0
    if any(each.startswith("cdi-") for each in strategies):
        return on_node if sees_all else requested
    is_listed = ("volume-mounts" in strategies and toolkit_settings.by_mounts) or (
        "envvar" in strategies and toolkit_settings.by_variable
    )
    return requested if is_listed else 0
