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

CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Which of the device plugin's configurations a node has, where it is not the default one."""
MPS_LABEL = "nvidia.com/mps.capable"
"""What the plugin's MPS daemon is placed by. Feature discovery sets it, and a node group must where there is none
(NVIDIA/k8s-device-plugin v0.20.0, deployments/helm/nvidia-device-plugin/templates/daemonset-mps-control-daemon.yml)."""

OPERAND_LABELS = "nvidia.com/gpu.deploy."
"""By these NVIDIA's GPU Operator places its driver, container toolkit, device plugin and monitors on a node. It sets
them where the node has a GPU (NVIDIA/gpu-operator@04751ec controllers/state_manager.go, gpuStateLabels)."""
OPERANDS_OFF = {f"{OPERAND_LABELS}operands": "false"}
"""Keeps all of them off a node (the same, hasOperandsDisabled). Nodes of pools have a driver, a toolkit and a device
plugin already; the kubelet takes both plugins (NVIDIA/k8s-device-plugin#255)."""


def labels(pool: str) -> dict[str, str]:
    """The labels of a node of `pool`; whoever runs there selects by the same map."""
    return {POOL_LABEL: pool, PRESENT_LABEL: "true"}


def config_labels(config: str, *, mps: bool = False) -> dict[str, str]:
    """What else is on nodes whose GPUs are shared: the name of the plugin's configuration, and its daemon's word."""
    return {CONFIG_LABEL: config, **({MPS_LABEL: "true"} if mps else {})}


def toleration() -> dict[str, Any]:
    """The toleration of a pod that may run on GPU nodes, in the API's own words."""
    return {"key": TAINT_KEY, "operator": "Equal", "value": TAINT_VALUE, "effect": TAINT_EFFECT}


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    """An affinity to nodes of which all of these hold."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def on_gpu_nodes() -> dict[str, Any]:
    """The expression that holds on every node made with these labels."""
    return {"key": PRESENT_LABEL, "operator": "In", "values": ["true"]}


def elsewhere() -> dict[str, Any]:
    """The affinity of what must not take room on GPU nodes. The taint alone does not see to it: somebody's node may
    carry the label and no taint."""
    return required({"key": PRESENT_LABEL, "operator": "NotIn", "values": ["true"]})


def gpus(count: int, resource: str = RESOURCE) -> dict[str, dict[str, str]]:
    """The resources of a container that gets `count` GPUs: an extended resource's request equals its limit
    (kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus)."""
    return {"requests": {resource: str(count)}, "limits": {resource: str(count)}}
