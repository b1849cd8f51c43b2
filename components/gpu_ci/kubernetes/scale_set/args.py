"""The arguments of a runner scale set: how runners run jobs, the resources of a job, and the registration."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from ...args import Args, ComponentArgs, Input, Integer, SecretInput, StrictBool
from ...errors import at_path, invalid, raise_problems
from .. import gpu_nodes
from ..kueue_labels import QueueName
from ..name_types import (
    ENVIRONMENT,
    TOLERATIONS,
    EachOnce,
    Environment,
    GpuResource,
    Image,
    Name,
    NamespaceName,
    Pool,
    PullSecrets,
    Tolerations,
)
from .rules import (
    AppId,
    ConfigUrl,
    ControllerVersion,
    InstallationId,
    Label,
    PriorityClassName,
    PrivateKey,
    ScaleSetName,
    Script,
    is_repository,
)
from .storage import SEVERAL_RUNNERS_HINT, Cache, Scratch, overlap, several_runners

_PREPARE = "seconds that a job waits for its pod, including the start of a node, 60 to 86400"
# The default of the hooks is ten minutes (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/index.ts). A GPU
# node can take longer to start and to pull images.
PrepareTimeout = Annotated[Integer, Field(ge=60, le=86400)]


class OwnImage(Args):
    """The job runs in the runner's own container, which has the GPUs."""

    kind: Literal["none"] = Field(description="the job runs in the runner's container, which has the GPUs")


class KubernetesNovolume(Args):
    """Each job runs in a separate pod with the GPUs. The runner's pod has no GPU, and copies the files of the job."""

    kind: Literal["kubernetes-novolume"] = Field(
        description="each job runs in a separate pod with the GPUs, and needs container: in its workflow; the runner "
        "copies the files of the job"
    )
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class KubernetesVolume(Args):
    """Each job runs in a separate pod with the GPUs, on the runner's node, and shares a volume with the runner."""

    kind: Literal["kubernetes"] = Field(
        description="each job runs in a separate pod with the GPUs, and needs container: in its workflow; the pod "
        "shares a volume with the runner"
    )
    storage_class: Name = Field(examples=["gp3"], description="storage class of the volume, such as gp3")
    work_gib: Integer = Field(ge=1, le=16384, examples=[100], description="size of the volume in GiB, 1 to 16384")
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class Dind(Args):
    """Jobs can use a Docker daemon. The daemon is privileged, so it could use any GPU of the node."""

    kind: Literal["dind"] = Field(
        description="jobs can use a Docker daemon, whose containers have no GPU; each runner must have all GPUs of "
        "its node, because the daemon is privileged and sees all of them"
    )
    node_gpus: Integer = Field(ge=1, examples=[1], description="number of GPUs of a node of the pool")


ContainerMode: TypeAlias = Annotated[
    OwnImage | KubernetesNovolume | KubernetesVolume | Dind, Field(discriminator="kind")
]


class GithubApp(Args):
    """The GitHub App that registers the runners."""

    id: SecretInput[AppId] = Field(description="the App's id or client id, as a secret Output")
    installation_id: SecretInput[InstallationId] = Field(
        description="the id of the App's installation, as a secret Output"
    )
    private_key: SecretInput[PrivateKey] = Field(description="the App's private key in PEM form, as a secret Output")


class ControllerReference(Args):
    """The controller of the set: three outputs of an ArcController."""

    service_account_name: Input[Name] = Field(description="the service account of the controller")
    namespace: Input[NamespaceName] = Field(description="the namespace of the controller")
    version: Input[ControllerVersion] = Field(
        description="the version of the controller's chart, with the same minor version as the set"
    )


class RunnerChoices(Args):
    """The settings of a runner: its image, how it runs a job, and the job's resources."""

    image: Image = Field(
        examples=["ghcr.io/acme/cuda-runner@sha256:…"],
        description="the runner's image by its digest, such as ghcr.io/acme/cuda-runner:2.336.0@sha256:…; GitHub "
        "rejects old runners, and runners in pods do not update themselves",
    )
    image_pull_secrets: PullSecrets = Field(
        default=[],
        examples=[["ghcr"]],
        description="the Secrets of the namespace with which nodes pull private images, such as ghcr. Pods of jobs "
        "use these Secrets, too, instead of container.credentials of a workflow",
    )
    container_mode: ContainerMode = Field(
        default=OwnImage(kind="none"), description="where jobs run: in the runner's container, or in separate pods"
    )
    gpus: Integer = Field(default=1, ge=1, le=16, validate_default=True, description="number of GPUs of a job, 1 to 16")
    gpu_resource: GpuResource = Field(
        default=gpu_nodes.RESOURCE,
        examples=[gpu_nodes.RESOURCE],
        description="the GPU resource, such as nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb",
    )
    cpus: Integer = Field(default=4, ge=1, le=512, description="CPU request of a job")
    memory_gib: Integer = Field(default=16, ge=1, le=4096, description="memory of a job in GiB, as request and limit")
    ephemeral_storage_gib: Integer = Field(
        default=10,
        ge=1,
        le=65536,
        description="disk request of a job in GiB, for files outside volumes. If a node's disk is full, pods that "
        "use more than their request are evicted first; images are on the same disk and do not count",
    )
    cache: Cache | None = Field(
        default=None,
        examples=[{"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100}],
        description="a volume for files that jobs need again, such as models; by default none",
    )
    scratch: Scratch | None = Field(
        default=None,
        examples=[{"sizeGib": 200}],
        description="an empty folder for large files of a job, on the node's disk for pods; by default none",
    )
    shm_gib: Integer = Field(
        default=2,
        ge=1,
        validate_default=True,
        description="the part of that memory that processes may share (/dev/shm), in GiB",
    )
    priority_class_name: PriorityClassName | None = Field(
        default=None,
        examples=["merge-queue"],
        description="an existing PriorityClass, or with queue a WorkloadPriorityClass of Kueue, by which waiting "
        "runners get GPUs (docs/operate/a-job-waits.md#priorities)",
    )
    allow_sudo: StrictBool = Field(
        default=False, description="whether steps may use sudo, which requires podSecurity baseline in the namespace"
    )
    termination_grace_sec: Integer = Field(
        default=90,
        ge=0,
        le=86400,
        description="seconds between the request to terminate a runner's pod and its kill, for example after the "
        "interruption notice of a spot node (120 seconds on AWS). A running job is cancelled 15 seconds before the "
        "kill; an idle runner ends at once",
    )
    drain_timeout_sec: Integer = Field(
        default=3600,
        ge=60,
        le=86400,
        description="seconds that the removal of the set waits for running jobs, 60 to 86400",
    )
    job_started_hook: Script | None = Field(
        default=None, description="a script that each runner runs before a job; readable in the cluster, so no secrets"
    )
    job_completed_hook: Script | None = Field(
        default=None, description="a script that each runner runs after a job; readable in the cluster, so no secrets"
    )
    scale_set_name: ScaleSetName | None = Field(
        default=None,
        examples=["gpu-l4"],
        description="the name for runs-on, at most 45 characters; by default the component's name",
    )
    scale_set_labels: Annotated[list[Label], EachOnce] = Field(
        default=[],
        description="additional labels for runs-on, 1 to 255 characters each. Reports about GitHub's use of these "
        "labels differ, so workflows should use the set's name",
    )

    @property
    def jobs_in_pods(self) -> bool:
        """True if jobs run in separate pods, which the runner creates, so that the runner's pod needs no GPU."""
        return isinstance(self.container_mode, KubernetesNovolume | KubernetesVolume)

    @field_validator("gpus")
    @classmethod
    def _gpus(cls, value: int, info: ValidationInfo) -> int:
        mode = info.data.get("container_mode")
        if isinstance(mode, Dind) and value != mode.node_gpus:
            raise invalid(
                f"is not the {mode.node_gpus} GPUs of the node: a privileged Docker daemon would see the GPUs of other "
                "pods",
                "dind-needs-all-gpus",
                safe_hint="give each job all GPUs of the node, or use containerMode: {kind: kubernetes-novolume}",
            )
        return value

    @field_validator("gpu_resource")
    @classmethod
    def _gpu_resource(cls, value: str, info: ValidationInfo) -> str:
        if value.endswith(".shared") and info.data.get("gpus", 1) > 1:
            raise invalid(
                "is a part of a GPU, and several parts give no more capacity",
                "several-gpu-parts",
                safe_hint="set gpus: 1",
            )
        if value != gpu_nodes.RESOURCE and isinstance(info.data.get("container_mode"), Dind):
            raise invalid(
                "is a part of a GPU, but a privileged Docker daemon sees the whole GPU",
                "dind-needs-all-gpus",
                safe_hint="remove it",
            )
        return value

    @field_validator("cache", "scratch")
    @classmethod
    def _not_with_dind(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and isinstance(info.data.get("container_mode"), Dind):
            raise invalid(
                "is not possible with containerMode dind: the Docker daemon does not mount it, so a container of a job "
                "would have an empty folder instead",
                "no-volume-with-dind",
                safe_hint="use containerMode: {kind: kubernetes-novolume}, or remove it",
            )
        return value

    @field_validator("scratch")
    @classmethod
    def _scratch(cls, value: Scratch | None, info: ValidationInfo) -> Scratch | None:
        cache = info.data.get("cache")
        if value and cache and overlap(value.mount_path, cache.mount_path):
            error = invalid(
                f"is {cache.mount_path} of the cache, or one of the two is in the other",
                "overlapping-paths",
                safe_hint="use two separate folders, such as /mnt/cache and /scratch",
            )
            raise_problems([at_path(error, value.mount_path, "mountPath")])
        return value

    @field_validator("shm_gib")
    @classmethod
    def _shm_gib(cls, value: int, info: ValidationInfo) -> int:
        memory = info.data.get("memory_gib")
        if memory is not None and value >= memory:
            raise invalid(
                f"is not less than the memory, which is {memory} GiB",
                "more-than-memory",
                safe_hint="raise memoryGib, or lower shmGib",
            )
        return value


class RunnerScaleSetArgs(RunnerChoices, ComponentArgs):
    """The arguments of a scale set: the source of its jobs, its size, and the resources of a job."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "controller", "app"})

    github_config_url: ConfigUrl = Field(
        examples=["https://github.com/acme"],
        description="the GitHub URL of the organization, repository or enterprise whose jobs the set takes",
    )
    runner_group: Input[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        validate_default=True,
        description="the runner group, which must exist; required for organizations and enterprises, because any "
        "repository may use their default group",
    )
    max: Integer = Field(
        ge=1, le=1000, examples=[4], description="maximum number of concurrent runners, each with a job"
    )
    min_idle: Integer = Field(
        default=0,
        ge=0,
        description="number of runners that wait for a job in addition to busy ones; each holds its GPUs",
    )
    pool: Pool = Field(
        examples=["l4"], description="the pool of nodes for jobs, by the value of the node label gpu-ci-pool"
    )
    queue: QueueName | None = Field(
        default=None,
        examples=["vision"],
        description="the LocalQueue of Kueue in which a runner waits for its GPUs, in the same namespace; with "
        "containerMode kubernetes or kubernetes-novolume, the pod of the job waits. By default, Kueue ignores the pods",
    )
    environment: Environment = Field(
        default={}, examples=[{"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}], description=ENVIRONMENT
    )
    tolerations: Tolerations = Field(
        default=[], examples=[[{"key": "kubernetes.io/arch", "value": "arm64"}]], description=TOLERATIONS
    )
    namespace: Input[NamespaceName] = Field(description="the namespace of the pods, from the output of a GpuNamespace")
    controller: ControllerReference = Field(description="the controller of the set")
    app: GithubApp = Field(description="the GitHub App that registers its runners")

    @field_validator("max")
    @classmethod
    def _max(cls, value: int, info: ValidationInfo) -> int:
        if why := several_runners(info.data.get("cache"), value):
            raise invalid(
                f"is too high: the access mode of the cache {why}", "one-node-volume", safe_hint=SEVERAL_RUNNERS_HINT
            )
        return value

    @field_validator("runner_group")
    @classmethod
    def _runner_group(cls, value: Any, info: ValidationInfo) -> Any:
        url = info.data.get("github_config_url")
        if url is None:
            return value
        if is_repository(url) and value is not None:
            raise invalid(
                "is not supported for a repository, which has no runner groups",
                "no-group-of-repository",
                safe_hint="remove it, or use the URL of the organization",
            )
        if not is_repository(url) and value is None:
            raise invalid("is missing", "missing", safe_hint="set a group, such as groupName of a github.RunnerGroup")
        return value

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("max", value):
            raise invalid(
                f"is more than max, which is {info.data['max']}", "more-than-max", safe_hint="lower it, or raise max"
            )
        return value
