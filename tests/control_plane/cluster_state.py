"""Creates the same nodes and pods in the real cluster and in the emulated one, from the node descriptions of
sandbox.yaml.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from gpu_ci.kubernetes import gpu_nodes

from tests.control_plane.api import Api, until
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT
from tests.sandbox.providers.kubernetes.conftest import Cluster

SIZE = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "89Gi", "pods": "110"}


def gpu_node(name: str = "gpu-1", pool: str = "l4", gpus: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a node as in sandbox.yaml, with the labels and taint of our GPU nodes."""
    allocatable = {**SIZE, gpu_nodes.RESOURCE: str(gpus)} if gpus else SIZE
    return {"name": name, "labels": gpu_nodes.labels(pool), "taints": [GPU_TAINT], "allocatable": allocatable} | changes


def add_nodes(api: Api, *listed: Mapping[str, Any]) -> None:
    """Create nodes in the real cluster. The scheduler knows them when this returns."""
    for one in listed:
        meta = {"name": one["name"], "labels": {"kubernetes.io/hostname": one["name"], **one["labels"]}}
        api.apply({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": one["taints"]}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": one["allocatable"], "allocatable": one["allocatable"], "conditions": [ready]}
        api.patch_status("v1", "Node", one["name"], status)
    for one in listed:
        # A new node has a taint until its controller has seen that it is ready.
        until(
            lambda one=one: (api.get("v1", "Node", name=one["name"])[0]["spec"].get("taints") or []) == one["taints"],
            f"{one['name']} has its own taints only",
        )
    # The scheduler learns of a new or deleted node a moment after the API server.
    time.sleep(0.3)


@dataclass
class Both:
    """The real cluster and the emulated one, with the same nodes."""

    api: Api
    sandbox: Cluster
    made: list[tuple[str, str, str, str | None]] = field(default_factory=list)

    def nodes(self, *listed: Mapping[str, Any]) -> None:
        self.sandbox.settings(yaml.safe_dump({"values": {"kubernetes": {"nodes": [*map(dict, listed)]}}}))
        self.made += [("v1", "Node", one["name"], None) for one in listed]
        add_nodes(self.api, *listed)

    def make(self, given: Mapping[str, Any]) -> None:
        meta = given["metadata"]
        self.made.append((given["apiVersion"], given["kind"], meta["name"], meta.get("namespace")))
        self.api.apply(given)

    def decided(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the pod after the scheduler has decided about it."""

        def found() -> dict[str, Any] | None:
            pods = self.api.get("v1", "Pod", namespace, name)
            return pods[0] if pods and pods[0]["status"].get("conditions") else None

        return until(found, f"the scheduler has seen {name}")

    def pods_decided(self, job: Mapping[str, Any], count: int = 1) -> list[dict[str, Any]]:
        """Return the pods of a Job after the scheduler has decided about them."""
        name, space = job["metadata"]["name"], job["metadata"]["namespace"]

        def found() -> list[str] | None:
            metas = [one["metadata"] for one in self.api.get("v1", "Pod", space)]
            own = [str(meta["name"]) for meta in metas if meta.get("labels", {}).get("job-name") == name]
            return own if len(own) == count else None

        return [self.decided(space, pod) for pod in until(found, f"the Job has {count} pods")]

    def clear(self) -> None:
        for version, kind, name, namespace in reversed(self.made):
            self.api.delete(version, kind, name, namespace)
        until(lambda: not self.api.get("v1", "Node"), "no node is left")
        for one in self.api.get("v1", "Pod"):
            self.api.delete("v1", "Pod", one["metadata"]["name"], one["metadata"]["namespace"])
        until(lambda: not self.api.get("v1", "Pod"), "no pod is left")
