"""What a check of nodes is made of."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ...args import Args, Input, Integer, StrictBool
from ...errors import invalid
from ..name_types import Image, NamespaceName, Pool, PullSecrets


class SmokeJobArgs(Args):
    """Which nodes are proven, of what GPU, and in which image."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "namespace_gpus", "rerun_on", "kubeconfig"})

    namespace: Input[NamespaceName] = Field(description="the namespace the Job runs in, as a GpuNamespace gives it out")
    pool: Pool = Field(description="the pool of nodes to prove, as their label gpu-ci-pool has it")
    image: Image = Field(
        description="a container image with Python and torch, by its digest, as registry/name:tag@sha256:…; best the "
        "one that jobs run in"
    )
    image_pull_secrets: PullSecrets = Field(
        default=[],
        examples=[["ghcr"]],
        description="the Secrets of the namespace that nodes pull the image with, where its registry asks for a login",
    )
    run_as_user: Integer | None = Field(
        default=None,
        ge=1,
        description="user and group id of the image's own user, such as 1001 of GitHub's runner image; packages that "
        "pip installed for that user are then found. By default 1000, with /tmp as home",
    )
    closed_to_cluster: StrictBool = Field(
        default=False,
        description="whether the namespace's network policies keep its pods from the cluster's API server, as those of "
        "a GpuNamespace do: the check then fails where the cluster does not enforce them",
    )
    gpus: Integer = Field(default=1, ge=1, le=16, description="how many GPUs a node has; the check takes all of them")
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=100,
        description="how many nodes prove their GPUs, all at the same time, each of them another one; a pool's max is "
        "the whole pool",
    )
    namespace_gpus: Integer | None = Field(
        default=None,
        ge=1,
        description="how many GPUs the namespace's pods may have together, where that is known; nodes times gpus may "
        "not be more",
    )
    gpu: str = Field(
        default="", max_length=100, description="the name the GPU must have, such as NVIDIA L4; by default any"
    )
    min_compute_capability: str = Field(
        default="",
        pattern=r"^([0-9]{1,2}\.[0-9])?$",
        description="the least compute capability that will do, such as 8.9; by default any",
    )
    deadline_sec: Integer = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the Job's creation to its end, 600 to 7200: a node that is started for it, the image "
        "that is pulled and the check itself. With several nodes, half of it is what the first waits for the last",
    )
    kubeconfig: Input[str] | None = Field(
        default=None,
        description="the cluster's kubeconfig, by which the events of the check's pods are read when it fails; the "
        "provider's own is not told to components",
    )
    rerun_on: list[Input[str]] = Field(
        default=[],
        description="what the nodes are made of (a launch template's version, an AMI release, a device plugin's "
        "version): when one of them changes, the check runs again",
    )

    @field_validator("namespace_gpus")
    @classmethod
    def _suffices(cls, value: int | None, info: ValidationInfo) -> int | None:
        nodes, gpus = info.data.get("nodes", 0), info.data.get("gpus", 0)
        if value is not None and nodes * gpus > value:
            raise invalid(
                f"is less than {nodes} nodes with {gpus} GPUs each need at once: some pods would never be made",
                hint=f"gpus: {nodes * gpus} or more for the GpuNamespace, or fewer nodes",
            )
        return value
