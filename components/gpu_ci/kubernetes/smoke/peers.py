"""Several nodes proven at once: how the pods of one check keep each other off, and know of each other.

A pod that has ended keeps nobody off, so with anti-affinity alone two of them could prove one node, one after the
other. None ends before it has found the names of all, and a pod has a name only while it runs: so all run at once, and
the scheduler has put each onto a node of its own.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .. import gpu_nodes

# Since Kubernetes 1.27 (kubernetes.io/docs/reference/labels-annotations-taints, "batch.kubernetes.io/job-name").
_JOB_LABEL = "batch.kubernetes.io/job-name"
# The label every node has a value of its own for.
_HOST = "kubernetes.io/hostname"


def service(
    name: str, namespace: pulumi.Input[str], pool: str, opts: pulumi.ResourceOptions
) -> kubernetes.core.v1.Service:
    """What gives the pods their names: headless, and without a port, as none of them listens.

    It does not publish addresses that are not ready: one that still pulls its image would be seen by pods that have
    ended by the time it looks for them. Pulumi waits for no pods of a headless Service
    (pulumi/pulumi-kubernetes@0012b9d:provider/pkg/await/service.go, shouldWaitForPods).
    """
    labels = {gpu_nodes.POOL_LABEL: pool}
    return kubernetes.core.v1.Service(
        name,
        metadata={"namespace": namespace, "labels": labels},
        spec={"cluster_ip": "None", "selector": labels},
        opts=opts,
    )


def counts(nodes: int) -> dict[str, Any]:
    """As many pods as nodes, all at once, each with a hostname of its own (kubernetes.io/docs/tasks/job/
    job-with-pod-to-pod-communication)."""
    return {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}


def anti_affinity(pool: str) -> dict[str, Any]:
    """The affinity of pods of which a node takes one."""
    term = {"labelSelector": {"matchLabels": {gpu_nodes.POOL_LABEL: pool}}, "topologyKey": _HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def environment() -> list[dict[str, Any]]:
    """What a pod's own words are made from: no API is asked."""
    fields = {"JOB_NAME": f"metadata.labels['{_JOB_LABEL}']", "NODE_NAME": "spec.nodeName"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def arguments(nodes: int, subdomain: pulumi.Output[str], deadline_sec: int) -> dict[str, Any]:
    """The options of the check. It has to give up before the Job does, or nobody is told who was missing: pods count
    from their own start, which may be late, so half of the Job's time is theirs."""
    return {
        "--node": "$(NODE_NAME)",
        "--peers": subdomain.apply(lambda found: ",".join(f"$(JOB_NAME)-{index}.{found}" for index in range(nodes))),
        "--peers-sec": str(deadline_sec // 2),
    }
