"""The arguments of a runner scale set: how its runners run jobs, what each job gets, and where they register."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from ...args import Args, Input, Integer, SecretInput, StrictBool
from ...errors import invalid
from .. import gpu_nodes
from ..name_types import EachOnce, GpuResource, Image, Name, NamespaceName, Pool, PullSecrets
from .rules import (
    AppId,
    ConfigUrl,
    ControllerVersion,
    InstallationId,
    Label,
    PrivateKey,
    ScaleSetName,
    Script,
    is_repository,
)

_PREPARE = "how long a job waits for its pod, the node's start included, 60 to 86400 seconds"
# The hooks' own limit is ten minutes (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/index.ts), less than
# a GPU node may take to start and pull.
PrepareTimeout = Annotated[Integer, Field(ge=60, le=86400)]


class OwnImage(Args):
    """The job runs in the runner's own container, which has the GPUs."""

    kind: Literal["none"] = Field(description="the job runs in the runner's container, which has the GPUs")


class KubernetesNovolume(Args):
    """Each job runs in a pod of its own with the GPUs; its files are copied there by the runner, which has none."""

    kind: Literal["kubernetes-novolume"] = Field(
        description="each job runs in a pod of its own with the GPUs, and needs container: in its workflow; its files "
        "are copied there"
    )
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class KubernetesVolume(Args):
    """Each job runs in a pod of its own with the GPUs, on the runner's node, with which it shares a volume."""

    kind: Literal["kubernetes"] = Field(
        description="each job runs in a pod of its own with the GPUs, and needs container: in its workflow; it shares "
        "a volume with its runner"
    )
    storage_class: Name = Field(examples=["gp3"], description="storage class of the volume, such as gp3")
    work_gib: Integer = Field(ge=1, le=16384, examples=[100], description="size of the volume in GiB, 1 to 16384")
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class Dind(Args):
    """Jobs have a Docker daemon beside them; it is privileged, so that it could take any GPU of the node."""

    kind: Literal["dind"] = Field(
        description="jobs have a Docker daemon beside them, whose containers have no GPU; for runners that have all of "
        "a node's GPUs alone, as the daemon is privileged and sees every one"
    )
    node_gpus: Integer = Field(ge=1, examples=[1], description="how many GPUs a node of the pool has")


ContainerMode: TypeAlias = Annotated[
    OwnImage | KubernetesNovolume | KubernetesVolume | Dind, Field(discriminator="kind")
]


class GithubApp(Args):
    """The GitHub App that registers the runners."""

    id: SecretInput[AppId] = Field(description="the App's id or client id, as a secret Output")
    installation_id: SecretInput[InstallationId] = Field(description="the id of its installation, as a secret Output")
    private_key: SecretInput[PrivateKey] = Field(description="its private key in PEM form, as a secret Output")


class ControllerReference(Args):
    """The controller that looks after the set: three outputs of an ArcController."""

    service_account_name: Input[Name] = Field(description="what it runs as")
    namespace: Input[NamespaceName] = Field(description="the namespace it runs in")
    version: Input[ControllerVersion] = Field(description="the version of its chart, of the same minor as the set's")


class RunnerChoices(Args):
    """What a runner is, how it runs a job, and what a job gets."""

    image: Image = Field(
        examples=["ghcr.io/acme/cuda-runner@sha256:…"],
        description="the runner's image by its digest, such as ghcr.io/acme/cuda-runner:2.336.0@sha256:…; GitHub turns "
        "runners away that are too old, and these do not update themselves",
    )
    image_pull_secrets: PullSecrets = Field(
        default=[],
        examples=[["ghcr"]],
        description="the Secrets of the namespace that nodes pull private images with, such as ghcr. Pods of jobs get "
        "them too, and container.credentials of a workflow then counts for nothing",
    )
    container_mode: ContainerMode = Field(
        default=OwnImage(kind="none"), description="where jobs run: in the runner's own container, or in pods"
    )
    gpus: Integer = Field(
        default=1, ge=1, le=16, validate_default=True, description="how many GPUs a job gets, 1 to 16"
    )
    gpu_resource: GpuResource = Field(
        default=gpu_nodes.RESOURCE,
        examples=[gpu_nodes.RESOURCE],
        description="which resource these are, such as nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb",
    )
    cpus: Integer = Field(default=4, ge=1, le=512, description="CPUs a job is promised")
    memory_gib: Integer = Field(default=16, ge=1, le=4096, description="memory a job gets in GiB, and no more")
    ephemeral_storage_gib: Integer = Field(
        default=10,
        ge=1,
        le=65536,
        description="disk a job is promised in GiB, for what it writes outside volumes. Where a node's disk is full, "
        "pods that use more than they were promised are ended first; images are on the same disk and do not count",
    )
    shm_gib: Integer = Field(
        default=2,
        ge=1,
        validate_default=True,
        description="how much of that memory processes may share (/dev/shm), in GiB",
    )
    allow_sudo: StrictBool = Field(
        default=False, description="whether steps may use sudo, which needs podSecurity baseline in the namespace"
    )
    termination_grace_sec: Integer = Field(
        default=90,
        ge=0,
        le=86400,
        description="seconds from the request to end a runner's pod until it is killed, such as after the notice that "
        "a spot node is reclaimed (120 seconds on AWS). A running job goes on until 15 seconds before, and is then "
        "cancelled; an idle runner ends at once",
    )
    drain_timeout_sec: Integer = Field(
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
                safe_hint="give a job all of the node's, or use containerMode: {kind: kubernetes-novolume}",
            )
        return value

    @field_validator("gpu_resource")
    @classmethod
    def _gpu_resource(cls, value: str, info: ValidationInfo) -> str:
        if value.endswith(".shared") and info.data.get("gpus", 1) > 1:
            raise invalid("is a part of a GPU, and several parts are no more than one", safe_hint="set gpus: 1")
        if value != gpu_nodes.RESOURCE and isinstance(info.data.get("container_mode"), Dind):
            raise invalid(
                "is a part of a GPU, of which a privileged Docker daemon sees the rest", safe_hint="remove it"
            )
        return value

    @field_validator("shm_gib")
    @classmethod
    def _shm_gib(cls, value: int, info: ValidationInfo) -> int:
        memory = info.data.get("memory_gib")
        if memory is not None and value >= memory:
            raise invalid(f"is no part of the memory, which is {memory} GiB", safe_hint="raise memoryGib, or lower it")
        return value


class RunnerScaleSetArgs(RunnerChoices):
    """Whose jobs a scale set takes, how many at once, and what each of them gets."""

    DECIDED: ClassVar[dict[str, str]] = {
        "githubToken": "a token of a person is that person; the App's id, installation and key stand under app",
        "githubConfigSecret": "the secret is made from app",
        "version": "it is the package's, because the controller must be of the same minor version",
        "nodeSelector": "pods select the nodes of pool",
        "tolerations": "pods with GPUs tolerate the taint of GPU nodes, and no others do",
        "serviceAccountName": "the chart makes one without rights, or with those that container hooks need",
    }
    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "controller", "app"})

    github_config_url: ConfigUrl = Field(
        examples=["https://github.com/acme"],
        description="whose jobs it takes: an organization's, repository's or enterprise's",
    )
    runner_group: Input[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        validate_default=True,
        description="the group its runners join, which must be there; for organizations and enterprises, whose group "
        "default any repository may use",
    )
    max: Integer = Field(
        ge=1, le=1000, examples=[4], description="how many runners there may be at once, each with a job"
    )
    min_idle: Integer = Field(
        default=0, ge=0, description="how many wait for a job besides those that have one; each holds its GPUs"
    )
    pool: Pool = Field(examples=["l4"], description="the pool of nodes jobs run on, as their label gpu-ci-pool has it")
    namespace: Input[NamespaceName] = Field(description="the namespace of its pods, as a GpuNamespace gives it out")
    controller: ControllerReference = Field(description="the controller that looks after it")
    app: GithubApp = Field(description="the GitHub App that registers its runners")

    @field_validator("runner_group")
    @classmethod
    def _runner_group(cls, value: Any, info: ValidationInfo) -> Any:
        url = info.data.get("github_config_url")
        if url is None:
            return value
        if is_repository(url) and value is not None:
            raise invalid(
                "is not for a repository, which has no groups", safe_hint="remove it, or name the organization"
            )
        if not is_repository(url) and value is None:
            raise invalid("is missing", safe_hint="name a group, such as that of github.RunnerGroup")
        return value

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("max", value):
            raise invalid(f"is more than max, which is {info.data['max']}", safe_hint="lower it, or raise max")
        return value
