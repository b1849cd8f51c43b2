"""The pod of the smoke check of a pool of nodes.

The pod has two containers. The container `gpu-smoke` requests all GPUs of the node and checks them. The container
`unasked` requests no GPU, and verifies that it sees no GPU.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, environment, pull_secrets, tolerations
from .args import SmokeJobArgs

# The label since Kubernetes 1.27 (kubernetes.io/docs/reference/labels-annotations-taints,
# "batch.kubernetes.io/job-name").
_JOB_LABEL = "batch.kubernetes.io/job-name"
# The label with a unique value on every node.
_HOST = "kubernetes.io/hostname"


def service_of_peers(
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


def settings_of_several_nodes(nodes: int) -> dict[str, Any]:
    """Return Job settings with one concurrent pod per node, each with its own hostname.

    Source: kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication.
    """
    return {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}


def anti_affinity(pool: str) -> dict[str, Any]:
    """Return an affinity that allows one pod of the pool's check per node."""
    term = {"labelSelector": {"matchLabels": {gpu_nodes.POOL_LABEL: pool}}, "topologyKey": _HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def environment_of_peers() -> list[dict[str, Any]]:
    """Return the environment variables with the name of the pod's Job and of its node."""
    fields = {"JOB_NAME": f"metadata.labels['{_JOB_LABEL}']", "NODE_NAME": "spec.nodeName"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def arguments_of_peers(nodes: int, subdomain: pulumi.Output[str], deadline_sec: int) -> dict[str, Any]:
    """Return the options of gpu-smoke for several nodes.

    A pod waits for its peers for half of the Job's deadline. It must stop waiting before the deadline, to report the
    missing peers. The time starts with the pod, which may start later than the Job.
    """
    return {
        "--node": "$(NODE_NAME)",
        "--peers": subdomain.apply(lambda found: ",".join(f"$(JOB_NAME)-{index}.{found}" for index in range(nodes))),
        "--peers-sec": str(deadline_sec // 2),
    }


ARCHIVE = "gpu_smoke.pyz"
"""The key of the check's archive in the ConfigMap."""

# The time limit of the check itself, after its container has started.
_CHECK_SEC = 300
_MOUNT = "/gpu-smoke"
_UID = 1000
_HOME = [{"name": "HOME", "value": "/tmp"}]  # noqa: S108 - the pod's own
# The folders for caches of torch, Triton and CUDA. By default they are in the home folder, which may be read-only
# (docs.pytorch.org, "Compile Time Caching Configuration"; triton-lang/triton, python/triton/knobs.py; docs.nvidia.com,
# "CUDA Environment Variables").
_CACHES = [
    {"name": name, "value": f"/tmp/{folder}"}  # noqa: S108
    for name, folder in {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "CUDA_CACHE_PATH": "cuda",
        "XDG_CACHE_HOME": "cache",
    }.items()
]
# The address of the API server. Every container has these variables, even without service links (k8s.io/kubernetes
# v1.36.0, pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap).
_API_SERVER = "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
# Kubernetes reads the message of an ended container from this file (kubernetes.io, "Determine the Reason for Pod
# Failure").
_MESSAGE = "/dev/termination-log"


def pod(args: SmokeJobArgs, archive: pulumi.Output[str], peers: pulumi.Output[str] | None) -> dict[str, Any]:
    """Return the pod of the check. It has no service account token, no root user and no added capability."""
    expected = {
        "--pool": args.pool,
        "--expect-gpus": str(args.gpus),
        "--expect-gpu": args.gpu,
        "--min-compute-capability": args.min_compute_capability,
        "--deadline-sec": str(_CHECK_SEC),
        "--termination-log": _MESSAGE,
    }
    peer_arguments = arguments_of_peers(args.nodes, peers, args.deadline_sec) if peers is not None else {}
    peer_environment = environment_of_peers() if peers is not None else []
    # Kubernetes assigns GPUs to each container separately, so this container needs no pod of its own. For one node, it
    # is a normal container, so that Pulumi reports its failure in the same way. For several nodes, it is an init
    # container, because a pod with an ended container is not ready, and would have no DNS name.
    no_gpu_check = {
        **_container(
            "unasked",
            args.image,
            {
                "--pool": args.pool,
                "--no-gpu-in": "/dev",
                "--termination-log": _MESSAGE,
                "--closed-to": _API_SERVER if args.closed_to_cluster else "",
            },
        ),
        # NVIDIA's images set this variable. Here it is set for every image, to test that the node ignores it.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "check", "mountPath": _MOUNT, "readOnly": True}],
    }
    no_gpu_check["securityContext"] = {"readOnlyRootFilesystem": True, **CONTAINER_SECURITY}
    resources = gpu_nodes.gpus(args.gpus)
    uid = args.run_as_user or _UID
    # An estimate of this project with a margin: each GPU has a process with CUDA and torch.
    memory = {"memory": f"{2 + 4 * args.gpus}Gi"}
    # An estimate of this project for the caches in /tmp. If a disk is full, pods without a request are evicted first.
    disk = {"ephemeral-storage": "2Gi"}
    return {
        "restartPolicy": "Never",
        "nodeSelector": {**args.node_labels, **gpu_nodes.labels(args.pool)},
        **({"affinity": anti_affinity(args.pool), "subdomain": peers} if peers is not None else {}),
        "tolerations": [*tolerations(args.tolerations), gpu_nodes.toleration_of_unproven()],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": uid, "runAsGroup": uid, **POD_SECURITY},
        **pull_secrets(args.image_pull_secrets),
        **({"initContainers": [no_gpu_check]} if peers is not None else {}),
        "containers": [
            {
                **_container("gpu-smoke", args.image, {**expected, **peer_arguments}),
                "env": environment(
                    args.environment, [*([] if args.run_as_user else _HOME), *_CACHES, *peer_environment]
                ),
                "resources": {
                    "requests": {**resources["requests"], **memory, **disk, "cpu": "1"},
                    "limits": {**resources["limits"], **memory},
                },
                "volumeMounts": [
                    {"name": "check", "mountPath": _MOUNT, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            },
            *([] if peers is not None else [no_gpu_check]),
        ],
        "volumes": [
            {"name": "check", "configMap": {"name": archive}},
            {"name": "tmp", "emptyDir": {}},
            # By default, /dev/shm has 64 MB, which is too small for torch's workers and NCCL.
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }


def _container(name: str, image: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that both containers of the check share."""
    return {
        "name": name,
        "image": image,
        "command": [
            "python3",
            f"{_MOUNT}/{ARCHIVE}",
            *(word for pair in arguments.items() if pair[1] != "" for word in pair),
        ],
        "terminationMessagePath": _MESSAGE,
        # If the check died before it wrote a message, Kubernetes uses the end of its output.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # The root filesystem is writable, as in a job. Hooks of NVIDIA's container toolkit may fail with a read-only
        # root filesystem (kserve/kserve#5711), although jobs would run.
        "securityContext": CONTAINER_SECURITY,
    }
