"""The taint and labels of GPU nodes, for components that create such nodes and components that run on them.

No other module defines these names. If a node group, a device plugin and a runner used different names, no pod would be
scheduled, and no error would explain the reason.
"""

from __future__ import annotations

from typing import Any

RESOURCE = "nvidia.com/gpu"
"""The extended resource that NVIDIA's device plugin advertises, and that pods request."""

TAINT_KEY = "nvidia.com/gpu"
TAINT_VALUE = "present"
"""The value of the taint. The worker of NVIDIA's node feature discovery tolerates only this value.

Source: NVIDIA/k8s-device-plugin#734.
"""
TAINT_EFFECT = "NoSchedule"

UNPROVEN_KEY = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-ci-unproven"
"""The taint of nodes of a pool with `proveNodes` whose GPUs have not passed the check yet.

The prefix tells Cluster Autoscaler that the taint will go, so it waits for the node and starts no other one
(kubernetes/autoscaler@55c37cd5: cluster-autoscaler/FAQ.md, "Startup taints"). The autoscaler of GKE knows startup
taints by this prefix alone (kubernetes-sigs/node-readiness-controller#279). A key on EKS has at most 63 characters.
"""
FAILED_KEY = "status-taint.cluster-autoscaler.kubernetes.io/gpu-ci-failed"
"""The taint of nodes that failed the check. Cluster Autoscaler starts other nodes instead ("Status taints")."""
UNPROVEN_VALUE = "true"

PRESENT_LABEL = "nvidia.com/gpu.present"
"""The label of nodes with GPUs. By default, the device plugin runs on nodes with this label.

Source: NVIDIA/k8s-device-plugin v0.20.0, deployments/helm/nvidia-device-plugin/values.yaml.
"""

POOL_LABEL = "gpu-ci-pool"
"""The label with the name of a node's pool.

It has no prefix, because the kubelet may not set labels with some prefixes.
"""

OPERAND_LABELS = "nvidia.com/gpu.deploy."
"""The prefix of labels by which NVIDIA's GPU Operator places its driver, container toolkit, device plugin and monitors.

The GPU Operator sets these labels on nodes with a GPU (NVIDIA/gpu-operator@04751ec controllers/state_manager.go,
gpuStateLabels).
"""
OPERANDS_OFF = {f"{OPERAND_LABELS}operands": "false"}
"""The label that keeps all components of the GPU Operator off a node.

Nodes of pools already have a driver, a toolkit and a device plugin. Two device plugins would both assign the GPUs of a
node (NVIDIA/k8s-device-plugin#255). Source: the same file, hasOperandsDisabled.
"""


def labels(pool: str) -> dict[str, str]:
    """Return the labels of a node of `pool`, which pods can use as a node selector."""
    return {POOL_LABEL: pool, PRESENT_LABEL: "true"}


def taints(*, unproven: bool) -> dict[str, str]:
    """Return the values of the taints of new nodes, by their keys. The effect of all of them is TAINT_EFFECT."""
    return {TAINT_KEY: TAINT_VALUE, **({UNPROVEN_KEY: UNPROVEN_VALUE} if unproven else {})}


def toleration() -> dict[str, Any]:
    """Return the toleration of a pod that may run on GPU nodes."""
    return {"key": TAINT_KEY, "operator": "Equal", "value": TAINT_VALUE, "effect": TAINT_EFFECT}


def toleration_of_unproven() -> dict[str, Any]:
    """Return the toleration of a pod that checks or prepares nodes before jobs may use them."""
    return {"key": UNPROVEN_KEY, "operator": "Exists", "effect": TAINT_EFFECT}


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    """Return a node affinity that requires all of these expressions."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def on_gpu_nodes() -> dict[str, Any]:
    """Return the expression that matches every node with the labels of GPU nodes."""
    return {"key": PRESENT_LABEL, "operator": "In", "values": ["true"]}


def off_gpu_nodes() -> dict[str, Any]:
    """Return the affinity of pods that must not run on GPU nodes.

    The taint is not sufficient, because a node may have the label without the taint.
    """
    return required({"key": PRESENT_LABEL, "operator": "NotIn", "values": ["true"]})


def gpus(count: int, resource: str = RESOURCE) -> dict[str, dict[str, str]]:
    """Return the resources of a container with `count` GPUs. The request of an extended resource equals its limit.

    Source: kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus.
    """
    return {"requests": {resource: str(count)}, "limits": {resource: str(count)}}
