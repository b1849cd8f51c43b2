"""The arguments of SmokeJob, the smoke check of Kubernetes nodes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ...args import ComponentArgs, Input, Integer, StrictBool
from ...errors import invalid
from ..name_types import (
    ENVIRONMENT,
    TOLERATIONS,
    Environment,
    Image,
    NamespaceName,
    NodeLabels,
    Pool,
    PullSecrets,
    Tolerations,
)


class SmokeJobArgs(ComponentArgs):
    """The nodes to check, their expected GPU, and the image of the check."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "namespace_gpus", "node_labels", "rerun_on"})

    namespace: Input[NamespaceName] = Field(description="the namespace of the Job, from the output of a GpuNamespace")
    pool: Pool = Field(description="the pool of nodes to check, by the value of the node label gpu-ci-pool")
    node_labels: NodeLabels = Field(
        default={},
        examples=[{"cloud.google.com/gke-nodepool": "l4"}],
        description="labels of the nodes to check in addition to those of the pool, such as the label with the name of "
        "their node pool, so that no node of a pool that is being replaced passes the check",
    )
    image: Image = Field(
        description="a container image with Python and torch, by its digest, as registry/name:tag@sha256:…; "
        "preferably the image of the jobs"
    )
    image_pull_secrets: PullSecrets = Field(
        default=[],
        examples=[["ghcr"]],
        description="the Secrets of the namespace with which nodes pull the image from a private registry",
    )
    run_as_user: Integer | None = Field(
        default=None,
        ge=1,
        description="user and group id of the image's own user, such as 1001 of GitHub's runner image, to find "
        "packages that pip installed for that user; by default 1000, with /tmp as home",
    )
    closed_to_cluster: StrictBool = Field(
        default=False,
        description="whether the namespace's network policies block the cluster's API server, as those of a "
        "GpuNamespace do; the check then fails if the cluster does not enforce them",
    )
    gpus: Integer = Field(default=1, ge=1, le=16, description="number of GPUs of a node; the check uses all of them")
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=100,
        description="number of nodes to check, all at the same time; a pool's max checks the whole pool",
    )
    namespace_gpus: Integer | None = Field(
        default=None,
        ge=1,
        description="the GPU quota of the namespace, if known; at least nodes times gpus",
    )
    gpu: str = Field(default="", max_length=100, description="the expected GPU name, such as NVIDIA L4; by default any")
    min_compute_capability: str = Field(
        default="",
        pattern=r"^([0-9]{1,2}\.[0-9])?$",
        description="the minimum compute capability, such as 8.9; by default any",
    )
    deadline_sec: Integer = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the Job's creation to its end, 600 to 7200, including the start of a node and the "
        "pull of the image; with several nodes, the first node waits for the last one at most half of that time",
    )
    environment: Environment = Field(
        default={}, examples=[{"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}], description=ENVIRONMENT
    )
    tolerations: Tolerations = Field(
        default=[], examples=[[{"key": "kubernetes.io/arch", "value": "arm64"}]], description=TOLERATIONS
    )
    rerun_on: list[Input[str]] = Field(
        default=[],
        description="identifiers of the nodes' configuration (a launch template's version, an AMI release, a device "
        "plugin's version); after a change, the check runs again",
    )

    @field_validator("namespace_gpus")
    @classmethod
    def _suffices(cls, value: int | None, info: ValidationInfo) -> int | None:
        nodes, gpus = info.data.get("nodes", 0), info.data.get("gpus", 0)
        if value is not None and nodes * gpus > value:
            raise invalid(
                f"is less than the GPUs of {nodes} nodes with {gpus} each, so some pods would never be created",
                "too-large-for-node",
                hint=f"gpus: {nodes * gpus} or more for the GpuNamespace, or fewer nodes",
            )
        return value
