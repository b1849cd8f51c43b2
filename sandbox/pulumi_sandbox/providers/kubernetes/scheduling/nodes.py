"""Define the nodes of a cluster, the GPUs that containers see on them, and the groups of the cluster autoscaler.

Sources of the settings for GPUs: NVIDIA/nvidia-container-toolkit@d34b304, internal/config/image/cuda_image.go;
NVIDIA/k8s-device-plugin@7774fe3, internal/plugin/server.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs, variable
from pulumi_sandbox.providers.kubernetes.quantities import amounts, quantity

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


# Taint effects of the APIs of EKS and GKE, with those of Kubernetes (docs.aws.amazon.com/eks/latest/APIReference/
# API_Taint.html; discovery document container v1, NodeTaint.effect).
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
DISK = "ephemeral-storage"
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    # A missing native resource has no limit. A missing extended resource does not exist on the node.
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)
    gpus: int = 0
    """NVIDIA GPUs with an installed driver, advertised or not."""
    has_builtin_plugin: bool = False
    toolkit: Toolkit = PACKAGED
    adds_tolerations: bool = False
    """Whether the cluster's API server adds tolerations to pods that request extended resources."""


@dataclass(frozen=True)
class Group:
    """The nodes that one autoscaling group of a cloud starts, with their desired and their maximum number."""

    name: str
    resource: tuple[str, str]
    """The type and the id of the node group or node pool in the emulated cloud state."""
    desired: int
    max_nodes: int
    pattern: Node
    predicted: Node
    """The first node as the cluster autoscaler predicts it for a group without nodes."""
    total: int | None = None
    """The maximum of all groups of the same resource together; None without one."""

    def node(self, number: int) -> Node:
        name = f"{self.name}-{number}"
        return replace(self.pattern, name=name, labels={**self.pattern.labels, "kubernetes.io/hostname": name})


def number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def taints(entries: Any) -> tuple[Taint, ...]:
    """Return taints with Kubernetes' names of their effects."""
    found = ((one, str(one.get("effect"))) for _, one in items(entries))
    return tuple(
        Taint(str(one.get("key")), str(one.get("value") or ""), EFFECTS.get(effect, effect)) for one, effect in found
    )


def listed_nodes(entries: Any, cluster: str) -> Iterator[Node]:
    """Yield the nodes of `values: {kubernetes: {nodes: [...]}}` in sandbox.yaml.

    The keys of a node are name, labels, taints, allocatable and cluster.
    """
    for index, entry in items(entries):
        if cluster and entry.get("cluster") not in (None, cluster, cluster.rpartition("/")[2]):
            continue
        name = str(entry.get("name") or f"node-{index}")
        labels = {"kubernetes.io/hostname": name, **{key: str(value) for key, value in pairs(entry.get("labels"))}}
        yield Node(name, labels, taints(entry.get("taints")), amounts(entry.get("allocatable")))


def nodes_of(group: Group, used: Collection[str]) -> Iterator[Node]:
    """Yield the nodes of a group: the desired ones, and those started for pods that still run."""
    for number in range(max(group.desired, group.max_nodes)):
        if number < group.desired or f"{group.name}-{number}" in used:
            yield group.node(number)
