"""The settings for a smoke check of several nodes, with one pod on each node.

The peers of a pod are the other pods of the check. Anti-affinity places the pods on separate nodes, but it ignores pods
that have ended. Without more, two pods could check the same node, one after the other. So each pod waits until it has
found the DNS names of all its peers. A pod has a DNS name only while it runs, so all pods run at the same time.
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
    """Create the Service that gives the pods their DNS names. It is headless and has no port, because no pod listens.

    Only ready pods have a DNS name. Otherwise, a pod could find a peer that still pulls its image, and end before the
    peer looks for it. Pulumi does not wait for the pods of a headless Service
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
    """Return the environment variables with the name of the pod's Job and of its node."""
    fields = {"JOB_NAME": f"metadata.labels['{_JOB_LABEL}']", "NODE_NAME": "spec.nodeName"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def arguments(nodes: int, subdomain: pulumi.Output[str], deadline_sec: int) -> dict[str, Any]:
    """Return the options of gpu-smoke for several nodes.

    A pod waits for its peers for half of the Job's deadline. It must stop waiting before the deadline, to report the
    missing peers. The time starts with the pod, which may start later than the Job.
    """
    return {
        "--node": "$(NODE_NAME)",
        "--peers": subdomain.apply(lambda found: ",".join(f"$(JOB_NAME)-{index}.{found}" for index in range(nodes))),
        "--peers-sec": str(deadline_sec // 2),
    }
