"""A runner scale set: pods with GPUs that each take one job of GitHub's and are gone."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field, ValidationInfo, field_validator

from .. import versions
from ..args import Args, In, Switch, Whole
from ..component import Component
from ..errors import invalid
from . import gpu_nodes, runner_pod, scale_set_rules
from .arc_controller import CHARTS
from .forms import EachOnce, GpuResource, Image, NamespaceName, Pool
from .scale_set_parts import ContainerMode, ControllerReference, Dind, GithubApp, OwnImage
from .scale_set_rules import ConfigUrl, Label, ScaleSetName, Script


class RunnerScaleSetArgs(Args):
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
    runner_group: In[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        validate_default=True,
        description="the group its runners join, which must be there; for organizations and enterprises, whose group "
        "default any repository may use",
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
    max: Whole = Field(
        ge=1, le=1000, examples=[4], description="how many runners there may be at once, each with a job"
    )
    min_idle: Whole = Field(
        default=0, ge=0, description="how many wait for a job besides those that have one; each holds its GPUs"
    )
    pool: Pool = Field(examples=["l4"], description="the pool of nodes jobs run on, as their label gpu-ci-pool has it")
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

    namespace: In[NamespaceName] = Field(description="the namespace of its pods, as a GpuNamespace gives it out")
    controller: ControllerReference = Field(description="the controller that looks after it")
    app: GithubApp = Field(description="the GitHub App that registers its runners")

    @field_validator("runner_group")
    @classmethod
    def _runner_group(cls, value: Any, info: ValidationInfo) -> Any:
        url = info.data.get("github_config_url")
        if url is None:
            return value
        if scale_set_rules.is_repository(url) and value is not None:
            raise invalid("is not for a repository, which has no groups", blind="remove it, or name the organization")
        if not scale_set_rules.is_repository(url) and value is None:
            raise invalid("is missing", blind="name a group, such as that of github.RunnerGroup")
        return value

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("max", value):
            raise invalid(f"is more than max, which is {info.data['max']}", blind="lower it, or raise max")
        return value

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


class RunnerScaleSet(Component):
    """Runners in pods with GPUs, each started for one job that names the set, and gone after it.

    Creates: a secret with the App's key, the Helm release of the scale set with its listener and, where there are hooks
    or jobs have pods of their own, a config map.
    Costs: nothing at rest beyond the listener, on nodes without GPUs; with minIdle, nodes for that many runners.
    Does not: start nodes, which an autoscaler does for the pods it sees waiting, or make the runner group. It refuses
    tokens of persons. The label self-hosted does not lead to it, and a list of labels in runs-on matches none of it.
    Replaces on change of: the release for scaleSetName, githubConfigUrl, runnerGroup, scaleSetLabels, namespace, and
    the controller's minor version. It is removed first, which waits for running jobs up to drainTimeoutSec, and made
    anew; jobs queue meanwhile. To rename a set without a pause, add a second one and move the workflows.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:RunnerScaleSet"
    ARGS: ClassVar[type[Args]] = RunnerScaleSetArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "githubConfigUrl": "https://github.com/acme",
        "runnerGroup": "gpu",
        "max": 4,
        "pool": "l4",
        "image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}",
        "jobStartedHook": "#!/usr/bin/env bash\nnvidia-smi\n",
    }

    scale_set_name: pulumi.Output[str]
    """What workflows write as runs-on; known once GitHub can be asked for it."""

    def __init__(self, name: str, args: RunnerScaleSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        secret = kubernetes.core.v1.Secret(
            f"{name}-app",
            metadata={"namespace": args.namespace},
            string_data={
                "github_app_id": args.app.id,
                "github_app_installation_id": args.app.installation_id,
                "github_app_private_key": args.app.private_key,
            },
            opts=self.child(),
        )
        mounted = None
        if found := runner_pod.files(args):
            # It has no name of its own, so that a changed one is another: runners that run keep theirs.
            mounted = kubernetes.core.v1.ConfigMap(
                f"{name}-files", metadata={"namespace": args.namespace}, data=found, opts=self.child()
            ).metadata.name
        called = args.scale_set_name or name
        release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=called,
            namespace=args.namespace,
            chart=f"{CHARTS}/gha-runner-scale-set",
            version=versions.ARC_CHARTS,
            # The removal waits for the set's finalizers, and these for its jobs: neither takes a job's runner away
            # (EphemeralRunnerSetReconciler.cleanUpEphemeralRunners in actions/actions-runner-controller@9bb16ae).
            timeout=args.drain_timeout_sec,
            values=_values(called, args, secret.metadata.name, mounted),
            # Two releases of one name cannot be at once. Labels are sent when a set is made and never again
            # (createRunnerScaleSet in the same), and its listener is named after group and address
            # (scaleSetListenerName): a changed set would keep the old ones.
            opts=self.child(
                delete_before_replace=True,
                replacement_trigger=[
                    args.github_config_url,
                    args.runner_group or "",
                    args.scale_set_labels,
                    pulumi.Output.from_input(args.controller.version).apply(scale_set_rules.minor),
                ],
            ),
        )
        self.scale_set_name = release.id.apply(lambda _: called)
        self.register()


def _values(
    called: str, args: RunnerScaleSetArgs, secret: pulumi.Output[str], mounted: pulumi.Output[str] | None
) -> dict[str, Any]:
    return {
        "githubConfigUrl": args.github_config_url,
        "githubConfigSecret": secret,
        **({"runnerGroup": args.runner_group} if args.runner_group is not None else {}),
        "runnerScaleSetName": called,
        **({"scaleSetLabels": args.scale_set_labels} if args.scale_set_labels else {}),
        "maxRunners": args.max,
        "minRunners": args.min_idle,
        # Left out, the chart looks for the controller in the cluster, and fails in a preview before there is one.
        "controllerServiceAccount": {
            "name": args.controller.service_account_name,
            "namespace": args.controller.namespace,
        },
        **runner_pod.container_mode(args),
        "listenerTemplate": runner_pod.listener(),
        "template": runner_pod.template(args, mounted),
    }
