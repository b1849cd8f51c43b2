"""The pod of the smoke check of a pool of nodes.

The pod has two containers. The container `gpu-smoke` requests all GPUs of the node and checks them. The container
`unasked` requests no GPU, and verifies that it sees no GPU.
"""

from __future__ import annotations

from typing import Any

import pulumi

from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, pull_secrets
from ..pod_settings import environment, tolerations
from . import peers as smoke_peers
from .args import SmokeJobArgs

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
    peer_arguments = smoke_peers.arguments(args.nodes, peers, args.deadline_sec) if peers is not None else {}
    peer_environment = smoke_peers.environment() if peers is not None else []
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
        **({"affinity": smoke_peers.anti_affinity(args.pool), "subdomain": peers} if peers is not None else {}),
        "tolerations": tolerations(args.tolerations),
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
