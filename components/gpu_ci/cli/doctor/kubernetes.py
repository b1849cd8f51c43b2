"""The steps of `gpu-ci doctor` that ask a Kubernetes cluster, of every cloud, with `kubectl`. Nothing is changed."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_ci.cli import programs
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.kubernetes import gpu_nodes

# The minimum age of a listener's pod that counts as running. If GitHub refuses a listener, its pod ends within seconds,
# and ARC starts a new pod (actions/actions-runner-controller@9bb16ae:
# controllers/actions.github.com/autoscalinglistener_controller.go).
_SETTLED_SEC = 60
# The operands (components) of NVIDIA's GPU Operator that nodes of pools must not get, because they have this software.
_DUPLICATE_OPERANDS = ("driver", "container-toolkit", "device-plugin")
# Messages of kubectl without a connection to a cluster.
_NO_CONNECTION = re.compile(r"connection to the server|Unable to connect|context .* does not exist|must be logged in")


class KubernetesCluster(ABC):
    """A cluster that kubectl can read."""

    context: str
    """The context of kubectl; empty for the current context."""
    plugin_namespace: str
    """The namespace of the stack's own device plugin; empty if the stack has none."""

    @property
    @abstractmethod
    def connect_command(self) -> str:
        """The command that connects kubectl with the cluster."""

    def kubectl(self, *arguments: str) -> list[dict[str, Any]]:
        context = ["--context", self.context] if self.context else []
        try:
            answer = programs.run_json(["kubectl", *context, "get", *arguments, "--output", "json"])
        except programs.NotInstalledError as error:
            raise NotAskedError(str(error), ("# install kubectl: kubernetes.io/docs/tasks/tools",)) from None
        except NotAskedError as error:
            connect = self.connect_command
            raise NotAskedError(str(error), (connect,) if _NO_CONNECTION.search(str(error)) else ()) from None
        items: list[dict[str, Any]] = answer["items"]
        return items


def node_without_gpu(cluster: KubernetesCluster) -> Finding:
    nodes = cluster.kubectl("nodes")
    usable = [node["metadata"]["name"] for node in nodes if _is_ready(node) and not _has_taint(node)]
    if not usable:
        return Finding("fail", f"none of {len(nodes)} nodes is ready and without a taint", usable)
    return Finding("pass", f"{len(usable)} of {len(nodes)} nodes are ready and without a taint", usable)


def no_other_device_plugin(cluster: KubernetesCluster) -> Finding:
    daemons = cluster.kubectl("daemonsets", "--all-namespaces")
    nodes = {name: labels for name, labels in _labels_of_nodes(cluster).items() if gpu_nodes.POOL_LABEL in labels}
    others = [
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in daemons
        if each["metadata"]["namespace"] != cluster.plugin_namespace
        and _may_assign_gpus(_pod_of(each))
        and not _is_excluded_by_labels(_pod_of(each), nodes)
    ]
    if problems := [*_duplicate_operands(nodes), *_without_gpus(nodes)]:
        return Finding("fail", "; ".join(problems), nodes)
    if others:
        text = f"{', '.join(others)} tolerates the taint of the pools' nodes, and would assign their GPUs, too"
        return Finding("unknown", text, others)
    return Finding("pass", f"none of {len(daemons)} DaemonSets assigns GPUs of the pools' nodes", others)


def _pod_of(daemon: Mapping[str, Any]) -> dict[str, Any]:
    return dict(daemon["spec"]["template"]["spec"])


def _may_assign_gpus(pod: Mapping[str, Any]) -> bool:
    """Return True if a DaemonSet's pod is NVIDIA's device plugin and can run on nodes of pools."""
    is_plugin = any("k8s-device-plugin" in each["image"] for each in pod["containers"])
    tolerates = any(each.get("key") in (None, gpu_nodes.TAINT_KEY) for each in pod.get("tolerations", ()))
    return is_plugin and tolerates and gpu_nodes.POOL_LABEL not in json.dumps(pod.get("affinity", {}))


def _labels_of_nodes(cluster: KubernetesCluster) -> dict[str, dict[str, str]]:
    nodes = cluster.kubectl("nodes")
    return {node["metadata"]["name"]: dict(node["metadata"].get("labels") or {}) for node in nodes}


def _is_excluded_by_labels(pod: Mapping[str, Any], nodes: Mapping[str, Mapping[str, str]]) -> bool:
    """Return True if the pod is an operand of the GPU Operator and its labels exclude all nodes of pools."""
    is_operand = any(key.startswith(gpu_nodes.OPERAND_LABELS) for key in pod.get("nodeSelector") or ())
    return is_operand and bool(nodes) and all(gpu_nodes.OPERANDS_OFF.items() <= each.items() for each in nodes.values())


def _duplicate_operands(nodes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a problem for each operand of the GPU Operator that duplicates software of a pool's node."""
    for name, labels in nodes.items():
        placed = [each for each in _DUPLICATE_OPERANDS if labels.get(f"{gpu_nodes.OPERAND_LABELS}{each}") == "true"]
        if placed:
            yield f"the GPU Operator places its {', '.join(placed)} on {name}, which already has this software"


def _without_gpus(nodes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a problem for each node on which the pools' device plugin does not run.

    The plugin runs on nodes with the label nvidia.com/gpu.present=true. The GPU Operator sets the label to false on
    nodes on which feature discovery found no GPU (labelGPUNodes).
    """
    for name, labels in nodes.items():
        if labels.get(gpu_nodes.PRESENT_LABEL) == "false":
            yield f"{name} has {gpu_nodes.PRESENT_LABEL}=false, so the device plugin does not run there"


def listeners_run(cluster: KubernetesCluster) -> Finding:
    selector = "app.kubernetes.io/component=runner-scale-set-listener"
    pods = cluster.kubectl("pods", "--all-namespaces", "--selector", selector)
    states = {pod["metadata"]["name"]: _state(pod) for pod in pods}
    # If GitHub rejects the runner version of a set, the controller deletes the listener and marks the set as Outdated.
    outdated = _outdated_sets(cluster)
    problems = [f"the scale set {name} is Outdated: its runner is too old for GitHub" for name in outdated]
    problems += [f"{name} is {state}" for name, state in states.items() if state != "Running"]
    if not states and not outdated:
        return Finding("unknown", "no listener exists; run this command again after `pulumi up`", states)
    if new_pods := [pod["metadata"]["name"] for pod in pods if _age_sec(pod) < _SETTLED_SEC and not problems]:
        text = f"started within the last {_SETTLED_SEC} s: {', '.join(new_pods)}; run this command again in a minute"
        return Finding("unknown", text, states)
    return problems_or_pass(problems, f"all {len(states)} listeners are Running", states)


def _outdated_sets(cluster: KubernetesCluster) -> list[str]:
    try:
        found = cluster.kubectl("autoscalingrunnersets", "--all-namespaces")
    except NotAskedError as error:
        if "doesn't have a resource type" in str(error):  # before the first `pulumi up`
            return []
        raise
    return [each["metadata"]["name"] for each in found if (each.get("status") or {}).get("phase") == "Outdated"]


def _state(pod: Mapping[str, Any]) -> str:
    """Return the phase of a pod, or the reason why one of its containers does not run."""
    status = pod.get("status", {})
    reasons = [
        each["state"][kind].get("reason", kind)
        for each in status.get("containerStatuses", ())
        for kind in ("waiting", "terminated")
        if kind in each.get("state", {})
    ]
    return str(next(iter(reasons), status.get("phase", "")))


def _age_sec(pod: Mapping[str, Any]) -> float:
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds()


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _has_taint(node: Mapping[str, Any]) -> bool:
    return bool(node.get("spec", {}).get("taints"))


STEPS: tuple[Step[KubernetesCluster], ...] = (
    Step(
        "other nodes", "a Ready node without a taint, for the controller and listeners", node_without_gpu,
        "add a node group without GPUs",
    ),
    Step(
        "device plugins", "no other device plugin, driver or toolkit for nodes of pools", no_other_device_plugin,
        "docs/guides/kubernetes.md#nvidias-gpu-operator",
    ),
    Step(
        "listeners", "one Running pod for each pool, after `pulumi up`", listeners_run,
        "read `kubectl logs` of the pod and of the controller; if the scale set is Outdated, use a newer runner image",
    ),
)  # fmt: skip
