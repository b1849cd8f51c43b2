"""A check of several nodes at once: how its pods get separate nodes and find each other.

The peers of a pod are the other pods of the check. Anti-affinity keeps them on separate nodes, but it ignores pods that
have ended. Two pods could therefore check one node, one after the other. To prevent this, no pod ends before it has
found the DNS names of all its peers. A pod has a name only while it runs, so all pods run at the same time.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .. import gpu_nodes

# The label since Kubernetes 1.27 (kubernetes.io/docs/reference/labels-annotations-taints,
# "batch.kubernetes.io/job-name").
_JOB_LABEL = "batch.kubernetes.io/job-name"
# The label with a unique value on every node.
_HOST = "kubernetes.io/hostname"


def service(
    name: str, namespace: pulumi.Input[str], pool: str, opts: pulumi.ResourceOptions
) -> kubernetes.core.v1.Service:
    """Create the Service that gives the pods their names. It is headless and has no port, because no pod listens.

    It does not publish addresses of pods that are not ready. Otherwise pods could find a peer that still pulls its
    image, and end before that peer looks for them. Pulumi does not wait for pods of a headless Service
    (pulumi/pulumi-kubernetes@0012b9d:provider/pkg/await/service.go, shouldWaitForPods).
    """
    labels = {gpu_nodes.POOL_LABEL: pool}
    return kubernetes.core.v1.Service(
        name,
        metadata={"namespace": namespace, "labels": labels},
        spec={"cluster_ip": "None", "selector": labels},
        opts=opts,
    )


def job_settings(nodes: int) -> dict[str, Any]:
    """Return Job settings with one concurrent pod per node, each with its own hostname.

    Source: kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication.
    """
    return {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}


def anti_affinity(pool: str) -> dict[str, Any]:
    """Return an affinity that allows one pod of the pool's check per node."""
    term = {"labelSelector": {"matchLabels": {gpu_nodes.POOL_LABEL: pool}}, "topologyKey": _HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def environment() -> list[dict[str, Any]]:
    """Return the environment variables with the pod's own data, which needs no API call."""
    fields = {"JOB_NAME": f"metadata.labels['{_JOB_LABEL}']", "NODE_NAME": "spec.nodeName"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def arguments(nodes: int, subdomain: pulumi.Output[str], deadline_sec: int) -> dict[str, Any]:
    """Return the options of the check for several nodes.

    The check must give up before the Job's deadline, or it could not report the missing pods. Pods count from their own
    start, which may be late, so they get half of the Job's time.
    """
    return {
        "--node": "$(NODE_NAME)",
        "--peers": subdomain.apply(lambda found: ",".join(f"$(JOB_NAME)-{index}.{found}" for index in range(nodes))),
        "--peers-sec": str(deadline_sec // 2),
    }
