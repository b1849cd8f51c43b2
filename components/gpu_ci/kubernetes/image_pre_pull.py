"""The component ImagePrePull: a DaemonSet that pulls images on the nodes of a pool before a job needs them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from .. import versions
from ..args import Args, ComponentArgs, Input
from ..component import Component
from . import gpu_nodes
from .name_types import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    TOLERATIONS,
    EachOnce,
    Image,
    NamespaceName,
    Pool,
    PullSecrets,
    Tolerations,
    pull_secrets,
    tolerations,
)

CPU_MILLI, MEMORY_MIB = 10, 32
"""The CPU request of the pod in thousandths of a CPU, and its memory, as request and limit.

These are estimates of this project. The pod runs `true` once for each image, and then waits.
"""

# The user "nobody". Every image can run `true` as this user.
_UID = 65534
# The pod's own label. The label gpu-ci-pool would match the anti-affinity of the smoke check of several nodes, whose
# pods then would not start on these nodes.
_LABEL = "gpu-ci-pre-pull"


class ImagePrePullArgs(ComponentArgs):
    """The nodes of a pool, and the images to pull on them."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace"})

    namespace: Input[NamespaceName] = Field(description="the namespace of the pods, from the output of a GpuNamespace")
    pool: Pool = Field(
        examples=["l4"],
        description="the pool of nodes that pull the images, by the value of the node label gpu-ci-pool",
    )
    images: Annotated[list[Image], EachOnce] = Field(
        min_length=1,
        max_length=20,
        description="the images by their digests, at most 20; a node pulls them in this order. Each image must contain "
        "the command true",
    )
    image_pull_secrets: PullSecrets = Field(
        default=[],
        examples=[["ghcr"]],
        description="the Secrets of the namespace with which nodes pull private images",
    )
    tolerations: Tolerations = Field(
        default=[], examples=[[{"key": "kubernetes.io/arch", "value": "arm64"}]], description=TOLERATIONS
    )
    pause_image: Image = Field(
        default=versions.PAUSE_IMAGE,
        description="the image of the container that keeps the pod running, for clusters that cannot reach "
        "registry.k8s.io",
    )


class ImagePrePull(Component):
    """A DaemonSet that pulls images on every node of a pool, so that the next jobs on the node start sooner.

    Creates: a DaemonSet. Its pod runs the command true of each image once, then waits. It has no GPU, no service
    account token and no privileges.
    Costs: 10 thousandths of a CPU and 32 MiB of each node, and the disk of the images. Nodes also pull images that no
    job uses. A changed image is pulled on all nodes at the same time, while jobs run.
    Does not: start nodes or keep them. If a node starts for one job and ends after it, the job's pod pulls the same
    image at the same time, so the job does not start sooner. Pulumi does not wait for the pulls, and an image that
    cannot be pulled is no error: kubectl describe shows the reason. The scheduler does not wait for the pulls either.
    Replaces on change of: the DaemonSet for pool and namespace. Everything else is updated in place. Images that are
    no longer listed stay on a node until the kubelet needs their disk space.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:ImagePrePull"
    ARGS: ClassVar[type[Args]] = ImagePrePullArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "pool": "l4",
        "images": [f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"],
    }

    daemon_set_name: pulumi.Output[str]
    """Name of the DaemonSet."""

    def __init__(self, name: str, args: ImagePrePullArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        daemon_set = kubernetes.apps.v1.DaemonSet(
            f"{name}-daemonset",
            metadata={
                "namespace": args.namespace,
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                # Otherwise Pulumi waits until every node has pulled every image (pulumi/pulumi-kubernetes#2953).
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=cast("Any", _spec(args)),
            opts=self.child(),
        )
        self.daemon_set_name = daemon_set.metadata.name
        self.register()


def _spec(args: ImagePrePullArgs) -> dict[str, Any]:
    labels = {_LABEL: args.pool}
    return {
        "selector": {"matchLabels": labels},
        # No pod serves requests, so all nodes may pull a changed image at the same time.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": gpu_nodes.labels(args.pool),
                "tolerations": [*tolerations(args.tolerations), gpu_nodes.toleration_of_unproven()],
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {"runAsUser": _UID, "runAsGroup": _UID, **POD_SECURITY},
                **pull_secrets(args.image_pull_secrets),
                "terminationGracePeriodSeconds": 1,
                # A pod runs its init containers one after the other, so a node pulls the first image first.
                "initContainers": [
                    {**_container(f"image-{at}", image), "command": ["true"]} for at, image in enumerate(args.images)
                ],
                "containers": [_container("pause", args.pause_image)],
            },
        },
    }


def _container(name: str, image: str) -> dict[str, Any]:
    memory = {"memory": f"{MEMORY_MIB}Mi"}
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # NVIDIA's images set this variable to `all`. With `void`, NVIDIA's runtime changes nothing in the container
        # (NVIDIA/nvidia-container-toolkit@d34b304:internal/config/image/devices.go).
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"requests": {"cpu": f"{CPU_MILLI}m", **memory}, "limits": memory},
        "securityContext": {"readOnlyRootFilesystem": True, **CONTAINER_SECURITY},
    }
