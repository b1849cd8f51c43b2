"""The gate of a pool of nodes: a Job that proves CUDA on one of them before anything that depends on it is made."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from ..args import Args, In, Whole
from ..component import Component
from ..payload import smoke_archive
from . import gpu_nodes
from .forms import CONTAINER_SECURITY, POD_SECURITY, Image, NamespaceName, Pool

# What is left of the Job's deadline for the check once its container runs, and at least that.
_CHECK_SEC = 300
_MOUNT, _ARCHIVE = "/gpu-smoke", "gpu_smoke.pyz"
_UID = 1000
# Kubernetes reads the message of an ended container from here (kubernetes.io, "Determine the Reason for Pod Failure").
_MESSAGE = "/dev/termination-log"


class SmokeJobArgs(Args):
    """Which nodes are proven, of what GPU, and in which image."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "rerun_on"})

    namespace: In[NamespaceName] = Field(description="the namespace the Job runs in, as a GpuNamespace gives it out")
    pool: Pool = Field(description="the pool of nodes to prove, as their label gpu-ci-pool has it")
    image: Image = Field(
        description="a container image with Python and torch, by its digest, as registry/name:tag@sha256:…; best the "
        "one that jobs run in"
    )
    gpus: Whole = Field(default=1, ge=1, le=16, description="how many GPUs a node has; the check takes all of them")
    gpu: str = Field(
        default="", max_length=100, description="the name the GPU must have, such as NVIDIA L4; by default any"
    )
    min_compute_capability: str = Field(
        default="",
        pattern=r"^([0-9]{1,2}\.[0-9])?$",
        description="the least compute capability that will do, such as 8.9; by default any",
    )
    deadline_sec: Whole = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the Job's creation to its end, 600 to 7200: a node that is started for it, the image "
        "that is pulled and the check itself",
    )
    rerun_on: list[In[str]] = Field(
        default=[],
        description="what the nodes are made of (a launch template's version, an AMI release, a device plugin's "
        "version): when one of them changes, the check runs again",
    )


class SmokeJob(Component):
    """Nodes of a pool that have proven their GPUs, or an error that says what the check found.

    Creates: a config map with the check, and a Job that runs it on one node with all of that node's GPUs. The Job stays
    when it has ended, so that the next preview knows of it.
    Costs: a node, where none runs, for the minutes of the check.
    Does not: prove every node of the pool, nor again those that come later.
    Replaces on change of: all but the deadline of Pulumi's own waiting; a Job cannot change, so each difference is a
    new check, and the old one goes when the new one has passed. A check that failed is asked again by the next `up`.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:SmokeJob"
    ARGS: ClassVar[type[Args]] = SmokeJobArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "pool": "l4",
        "image": f"docker.io/pytorch/pytorch:2.10.0-cuda13.0-cudnn9-runtime@sha256:{'0' * 64}",
        "gpu": "NVIDIA L4",
        "minComputeCapability": "8.9",
    }

    verdict: pulumi.Output[str]
    """pass; where the check does not pass, there is an error and no output."""

    def __init__(self, name: str, args: SmokeJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        archive = kubernetes.core.v1.ConfigMap(
            f"{name}-check",
            # No name of its own: another check is another map, and with it another Job.
            metadata={"namespace": args.namespace, "labels": {gpu_nodes.POOL_LABEL: args.pool}},
            binary_data={_ARCHIVE: smoke_archive()},
            immutable=True,
            opts=self.child(),
        )
        job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata={
                "namespace": args.namespace,
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                # A Job that failed stays failed: the next `up` makes another one.
                "annotations": {"pulumi.com/replaceUnready": "true"},
            },
            spec=cast("Any", _job(args, archive.metadata.name)),
            # Pulumi's own deadline starts anew at every event; the Job's is the one that counts, and comes first.
            opts=self.child(custom_timeouts=pulumi.CustomTimeouts(create=f"{args.deadline_sec + 300}s")),
        )
        self.verdict = job.status.apply(_verdict)
        self.register()


def _job(args: SmokeJobArgs, archive: pulumi.Output[str]) -> dict[str, Any]:
    """The Job, in the API's own words."""
    return {
        # One try. Pulumi waits on where a Job fails by a podFailurePolicy or backoffLimitPerIndex, whose reasons it
        # does not know (pulumi/pulumi-kubernetes v4.34.0, provider/pkg/await/checker/job).
        "backoffLimit": 0,
        # Counted from the Job's start, pending pods too.
        "activeDeadlineSeconds": args.deadline_sec,
        "template": {
            "metadata": {
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                "annotations": {
                    "gpu-ci-proves": pulumi.Output.all(*args.rerun_on).apply(_fingerprint),
                    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                    "karpenter.sh/do-not-disrupt": "true",
                },
            },
            "spec": _pod(args, archive),
        },
    }


def _pod(args: SmokeJobArgs, archive: pulumi.Output[str]) -> dict[str, Any]:
    """A pod that may do nothing but compute: no token, no root, no file it could write but in memory and in /tmp."""
    expected = {
        "--pool": args.pool,
        "--expect-gpus": str(args.gpus),
        "--expect-gpu": args.gpu,
        "--min-compute-capability": args.min_compute_capability,
        "--deadline-sec": str(_CHECK_SEC),
        "--termination-log": _MESSAGE,
    }
    words = [word for pair in expected.items() if pair[1] for word in pair]
    resources = gpu_nodes.gpus(args.gpus)
    # Ours, and generous: each GPU has a process of its own with CUDA and torch in it.
    memory = {"memory": f"{2 + 4 * args.gpus}Gi"}
    return {
        "restartPolicy": "Never",
        "nodeSelector": gpu_nodes.labels(args.pool),
        "tolerations": [gpu_nodes.toleration()],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": _UID, "runAsGroup": _UID, **POD_SECURITY},
        "containers": [
            {
                "name": "gpu-smoke",
                "image": args.image,
                "command": ["python3", f"{_MOUNT}/{_ARCHIVE}", *words],
                "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - the pod's own
                "terminationMessagePath": _MESSAGE,
                # A check that died before it could write: the end of what it printed.
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": {
                    "requests": {**resources["requests"], **memory, "cpu": "1"},
                    "limits": {**resources["limits"], **memory},
                },
                "securityContext": {"readOnlyRootFilesystem": True, **CONTAINER_SECURITY},
                "volumeMounts": [
                    {"name": "check", "mountPath": _MOUNT, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            }
        ],
        "volumes": [
            {"name": "check", "configMap": {"name": archive}},
            {"name": "tmp", "emptyDir": {}},
            # The runtime's own /dev/shm has 64 MB, which torch's workers and NCCL outgrow.
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }


def _fingerprint(values: list[str]) -> str:
    """What the nodes are made of, as one short text that fits an annotation whatever it is made from."""
    return hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]


def _verdict(status: kubernetes.batch.v1.outputs.JobStatus | None) -> str:
    """A Job that Pulumi waited for has succeeded; what says otherwise was not waited for, and proves nothing."""
    if status is None or not status.succeeded:
        raise pulumi.RunError("the smoke Job has not succeeded, so it proves nothing\n  hint: pulumi up --refresh")
    return "pass"
