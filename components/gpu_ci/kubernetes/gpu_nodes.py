"""What GPU nodes are told apart by: one taint and two labels, for all that makes such nodes and all that runs on them.

A node group, a device plugin and a runner that each have words of their own for this make the commonest fault of the
field: no pod is placed, and nothing says why. So these words stand here alone.
"""

from __future__ import annotations

from typing import Any

RESOURCE = "nvidia.com/gpu"
"""The extended resource NVIDIA's device plugin advertises, and pods ask for."""

TAINT_KEY = "nvidia.com/gpu"
TAINT_VALUE = "present"
"""Not `true`: the worker of NVIDIA's node feature discovery tolerates this alone (NVIDIA/k8s-device-plugin#734)."""
TAINT_EFFECT = "NoSchedule"

PRESENT_LABEL = "nvidia.com/gpu.present"
"""What the device plugin's default affinity looks for where no feature discovery has labelled the node
(NVIDIA/k8s-device-plugin v0.20.0, deployments/helm/nvidia-device-plugin/values.yaml)."""

POOL_LABEL = "gpu-ci-pool"
"""The pool a node belongs to. It has no prefix: the kubelet may set it, and it passes for nobody else's."""


def labels(pool: str) -> dict[str, str]:
    """The labels of a node of `pool`; whoever runs there selects by the same map."""
    return {POOL_LABEL: pool, PRESENT_LABEL: "true"}


def toleration() -> dict[str, Any]:
    """The toleration of a pod that may run on GPU nodes, in the API's own words."""
    return {"key": TAINT_KEY, "operator": "Equal", "value": TAINT_VALUE, "effect": TAINT_EFFECT}


def gpus(count: int) -> dict[str, dict[str, str]]:
    """The resources of a container that gets `count` GPUs: an extended resource's request equals its limit
    (kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus)."""
    return {"requests": {RESOURCE: str(count)}, "limits": {RESOURCE: str(count)}}
