"""The pod of the check of a pool of nodes, in the API's own words."""

from __future__ import annotations

from typing import Any

import pulumi

from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, pull_secrets
from . import peers as smoke_peers
from .args import SmokeJobArgs

ARCHIVE = "gpu_smoke.pyz"
"""Under which name the config map has the check."""

# What is left of the Job's deadline for the check once its container runs, and at least that.
_CHECK_SEC = 300
_MOUNT = "/gpu-smoke"
_UID = 1000
_HOME = [{"name": "HOME", "value": "/tmp"}]  # noqa: S108 - the pod's own
# Else torch, Triton and CUDA write into a home that may be read-only (docs.pytorch.org, "Compile Time Caching
# Configuration"; triton-lang/triton, python/triton/knobs.py; docs.nvidia.com, "CUDA Environment Variables").
_CACHES = [
    {"name": name, "value": f"/tmp/{folder}"}  # noqa: S108
    for name, folder in {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "CUDA_CACHE_PATH": "cuda",
        "XDG_CACHE_HOME": "cache",
    }.items()
]
# Every container has these variables, also without service links (k8s.io/kubernetes v1.36.0, pkg/kubelet/
# kubelet_pods.go, getServiceEnvVarMap).
_API_SERVER = "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
# Kubernetes reads the message of an ended container from here (kubernetes.io, "Determine the Reason for Pod Failure").
_MESSAGE = "/dev/termination-log"


def pod(args: SmokeJobArgs, archive: pulumi.Output[str], peers: pulumi.Output[str] | None) -> dict[str, Any]:
    """A pod that only computes: no service account token, no root, no added capability."""
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
    # Which GPUs a container has is decided for each by itself, so this one is as a pod of its own would be. Where one
    # node is proven it is no init container, so that Pulumi tells of its end as it does of the check's. Where several
    # are, it is: a pod of which a container has ended is not ready, and would have no name.
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
        # What NVIDIA's images say, so that it is tried in every image.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "check", "mountPath": _MOUNT, "readOnly": True}],
    }
    no_gpu_check["securityContext"] = {"readOnlyRootFilesystem": True, **CONTAINER_SECURITY}
    resources = gpu_nodes.gpus(args.gpus)
    uid = args.run_as_user or _UID
    # Ours, and generous: each GPU has a process of its own with CUDA and torch in it.
    memory = {"memory": f"{2 + 4 * args.gpus}Gi"}
    # Ours: the caches in /tmp, so that a full disk does not end the check before pods that requested nothing.
    disk = {"ephemeral-storage": "2Gi"}
    return {
        "restartPolicy": "Never",
        "nodeSelector": gpu_nodes.labels(args.pool),
        **({"affinity": smoke_peers.anti_affinity(args.pool), "subdomain": peers} if peers is not None else {}),
        "tolerations": [gpu_nodes.toleration()],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": uid, "runAsGroup": uid, **POD_SECURITY},
        **pull_secrets(args.image_pull_secrets),
        **({"initContainers": [no_gpu_check]} if peers is not None else {}),
        "containers": [
            {
                **_container("gpu-smoke", args.image, {**expected, **peer_arguments}),
                "env": [*([] if args.run_as_user else _HOME), *_CACHES, *peer_environment],
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
            # The runtime's own /dev/shm has 64 MB, which torch's workers and NCCL outgrow.
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }


def _container(name: str, image: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What both sides of the check have in common."""
    return {
        "name": name,
        "image": image,
        "command": [
            "python3",
            f"{_MOUNT}/{ARCHIVE}",
            *(word for pair in arguments.items() if pair[1] != "" for word in pair),
        ],
        "terminationMessagePath": _MESSAGE,
        # A check that died before it could write: the end of what it printed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # The root filesystem stays writable, as in a job: with a read-only one, hooks of NVIDIA's container toolkit
        # were seen to fail (kserve/kserve#5711), which no job would meet.
        "securityContext": CONTAINER_SECURITY,
    }
