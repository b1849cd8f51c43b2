"""What a runner is, wherever its jobs come from: its image, how it runs them, and what each of them gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from ...args import Args, Switch, Whole
from ...errors import invalid
from .. import gpu_nodes
from ..name_types import EachOnce, GpuResource, Image
from .models import ContainerMode, Dind, OwnImage
from .rules import Label, ScaleSetName, Script


class RunnerChoices(Args):
    """What a runner is, how it runs a job, and what a job gets."""

    image: Image = Field(
        examples=["ghcr.io/acme/cuda-runner@sha256:…"],
        description="the runner's image by its digest, such as ghcr.io/acme/cuda-runner:2.336.0@sha256:…; GitHub turns "
        "runners away that are too old, and these do not update themselves",
    )
    container_mode: ContainerMode = Field(
        default=OwnImage(kind="none"), description="where jobs run: in the runner's own container, or in pods"
    )
    gpus: Whole = Field(default=1, ge=1, le=16, validate_default=True, description="how many GPUs a job gets, 1 to 16")
    gpu_resource: GpuResource = Field(
        default=gpu_nodes.RESOURCE,
        examples=[gpu_nodes.RESOURCE],
        description="which resource these are, such as nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb",
    )
    cpus: Whole = Field(default=4, ge=1, le=512, description="CPUs a job is promised")
    memory_gib: Whole = Field(default=16, ge=1, le=4096, description="memory a job gets in GiB, and no more")
    shm_gib: Whole = Field(
        default=2,
        ge=1,
        validate_default=True,
        description="how much of that memory processes may share (/dev/shm), in GiB",
    )
    allow_sudo: Switch = Field(
        default=False, description="whether steps may use sudo, which needs podSecurity baseline in the namespace"
    )
    termination_grace_sec: Whole = Field(
        default=90,
        ge=0,
        le=86400,
        description="how long a job goes on once its pod is told to end, such as by a reclaimed spot node (120 seconds "
        "on AWS)",
    )
    drain_timeout_sec: Whole = Field(
        default=3600, ge=60, le=86400, description="how long removing the set waits for jobs that run, 60 to 86400"
    )
    job_started_hook: Script | None = Field(
        default=None, description="a script each runner runs before a job; readable in the cluster, so no secrets"
    )
    job_completed_hook: Script | None = Field(
        default=None, description="a script each runner runs after a job; readable in the cluster, so no secrets"
    )
    scale_set_name: ScaleSetName | None = Field(
        default=None,
        examples=["gpu-l4"],
        description="what jobs name in runs-on, at most 45 characters; by default the component's name",
    )
    scale_set_labels: Annotated[list[Label], EachOnce] = Field(
        default=[],
        description="more words for runs-on, 1 to 255 characters each; best effort, as reports about what GitHub does "
        "with them differ: target it by its name",
    )

    @field_validator("gpus")
    @classmethod
    def _gpus(cls, value: int, info: ValidationInfo) -> int:
        mode = info.data.get("container_mode")
        if isinstance(mode, Dind) and value != mode.node_gpus:
            raise invalid(
                f"leaves others on the node, which has {mode.node_gpus}: a privileged Docker daemon would see them",
                blind="give a job all of the node's, or use containerMode: {kind: kubernetes-novolume}",
            )
        return value

    @field_validator("gpu_resource")
    @classmethod
    def _gpu_resource(cls, value: str, info: ValidationInfo) -> str:
        if value.endswith(".shared") and info.data.get("gpus", 1) > 1:
            raise invalid("is a part of a GPU, and several parts are no more than one", blind="set gpus: 1")
        if value != gpu_nodes.RESOURCE and isinstance(info.data.get("container_mode"), Dind):
            raise invalid("is a part of a GPU, of which a privileged Docker daemon sees the rest", blind="remove it")
        return value

    @field_validator("shm_gib")
    @classmethod
    def _shm_gib(cls, value: int, info: ValidationInfo) -> int:
        memory = info.data.get("memory_gib")
        if memory is not None and value >= memory:
            raise invalid(f"is no part of the memory, which is {memory} GiB", blind="raise memoryGib, or lower it")
        return value
