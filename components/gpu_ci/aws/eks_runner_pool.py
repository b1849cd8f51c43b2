"""The component EksRunnerPool: a node group on Amazon EKS, a smoke check of its GPUs, and GitHub runners."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import pulumi
from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from .. import versions
from ..args import Args, Input, Integer, StrictBool
from ..component import Component
from ..errors import validate_whole_and_entries
from ..kubernetes.image_pre_pull import ImagePrePull, ImagePrePullArgs
from ..kubernetes.name_types import EachOnce, Image, NamespaceName
from ..kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from ..kubernetes.scale_set import pod as runner_pod
from ..kubernetes.scale_set.args import ControllerReference, GithubApp, RunnerChoices
from ..kubernetes.scale_set.rules import ConfigUrl
from ..kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from . import node_capacity
from .diagnosis import after_failed_check
from .gpu_node_group import GpuNodeGroup
from .nodes.args import GpuNodeGroupArgs
from .pre_pulled_images import pre_pull, pre_pulled_images


class JobSmokeSettings(Args):
    """Settings of the smoke check that must pass before runners start on the pool's nodes."""

    deadline_sec: Integer = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the check's start to its end, 600 to 7200, including the start of a node and the "
        "pull of the image; with several nodes, the first node waits for the last one at most half of that time",
    )
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=100,
        description="the number of nodes to check, all at the same time; all of them cost; max checks the whole pool",
    )
    image: Image | None = Field(
        default=None,
        description="the container image with Python and torch for the check, by its digest, which runs as user "
        "1000; by default the runner's image as its user 1001, which must then contain both",
    )


class PrePull(Args):
    """Images that every node of the pool pulls before a job needs them. The runner's image is always one of them."""

    images: Annotated[list[Image], EachOnce] = Field(
        default=[],
        max_length=19,
        description="more images by their digests, at most 19, such as the images of container: in workflows; a node "
        "pulls them after the runner's image, in this order. Each image must contain the command true",
    )
    pause_image: Image = Field(
        default=versions.PAUSE_IMAGE,
        description="the image of the container that keeps the pod running, for clusters that cannot reach "
        "registry.k8s.io",
    )


class EksRunnerPoolArgs(GpuNodeGroupArgs):
    """The arguments of a runner pool on EKS: its nodes, and the software that runs on them."""

    # The cluster of a pool is a field of the stack file, so it is not wiring.
    WIRING: ClassVar[frozenset[str]] = (GpuNodeGroupArgs.WIRING - {"cluster_name"}) | {
        "namespace",
        "namespace_gpus",
        "closed_to_cluster",
        "controller",
        "app",
        "github_config_url",
        "runner_group",
        "device_plugin",
        "kubeconfig",
    }

    runner: RunnerChoices = Field(description="the runner's image, its resources, and how jobs run")
    min_idle: Integer = Field(
        default=0,
        ge=0,
        description="the number of runners that wait for a job in addition to busy ones; each holds its GPUs, and "
        "its node costs",
    )
    smoke: JobSmokeSettings = Field(
        default=JobSmokeSettings(), description="the check that must pass before runners start on the pool's nodes"
    )

    pre_pull: PrePull | None = Field(
        default=None,
        examples=[{}],
        description="pulls images on every node when it starts and when an image changes, for the next jobs on the "
        "node; {} for the runner's image only. By default a node pulls an image for the first job that needs it",
    )

    namespace: Input[NamespaceName] = Field(description="the namespace of the pods, from the output of a GpuNamespace")
    namespace_gpus: Integer | None = Field(default=None, ge=1, description="the GPU quota of the namespace, if known")
    closed_to_cluster: StrictBool = Field(
        default=False,
        description="whether the namespace's network policies block the cluster's API server; the check then fails "
        "if the cluster does not enforce them",
    )
    controller: ControllerReference = Field(description="the controller of the scale set")
    app: GithubApp = Field(description="the GitHub App that registers the runners")
    github_config_url: ConfigUrl = Field(
        description="the GitHub URL whose jobs the runners take, such as https://github.com/acme"
    )
    runner_group: Input[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None, description="the runner group, for an organization or an enterprise"
    )

    kubeconfig: Input[str] | None = Field(
        default=None,
        description="the cluster's kubeconfig, to read the events of the check's pods if the check fails",
    )
    device_plugin: Input[str] = Field(
        default=versions.DEVICE_PLUGIN_CHART,
        description="the device plugin's version and settings; after a change, the check runs again",
    )

    @field_validator("runner", mode="wrap")
    @classmethod
    def _runner(cls, value: Any, choices: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return validate_whole_and_entries(value, choices, partial(node_capacity.runner, others=info.data))

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        return node_capacity.min_idle(value, info.data)

    @field_validator("smoke", mode="wrap")
    @classmethod
    def _smoke(cls, value: Any, choices: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return validate_whole_and_entries(value, choices, partial(node_capacity.smoke, others=info.data))

    @field_validator("pre_pull", mode="wrap")
    @classmethod
    def _pre_pull(cls, value: Any, choices: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return validate_whole_and_entries(value, choices, partial(pre_pull, others=info.data))

    @classmethod
    def placeholder_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:
        wiring = super().placeholder_wiring(region, choices)
        return {
            **{name: value for name, value in wiring.items() if name != "cluster_name"},
            "namespace": "gpu-ci",
            "controller": {
                "service_account_name": "arc",
                "namespace": "arc-systems",
                "version": versions.ARC_CHARTS,
            },
            # Not validated: secrets must be Outputs, which exist only in a running program.
            "app": GithubApp.model_construct(id="", installation_id="", private_key=""),
            "github_config_url": "https://github.com/acme",
            "runner_group": "gpu",
        }

    @property
    def max_runners(self) -> int:
        """The maximum number of runners on all nodes."""
        return self.max * node_capacity.runners_on_a_node(self.runner, self.machines[0], self.disk_gib)


class EksRunnerPool(Component):
    """GPU runners on Amazon EKS. Their nodes start on demand, and a check of some nodes must pass before runners start.

    Creates: a GpuNodeGroup, a SmokeJob on smoke.nodes of its nodes, and a RunnerScaleSet. With prePull, also an
    ImagePrePull. The scale set is created or changed only after the check of the current nodes has passed.
    Costs: nothing while no node runs and minIdle is 0. Each change of the nodes costs smoke.nodes nodes, by default
    one, for the minutes of the check.
    Does not: create the cluster, its autoscaler, the device plugin, the namespace or the controller. EKS changes nodes
    in place. If the check fails, the nodes are already changed, and runners of the previous scale set start on them.
    Replaces on change of: the check for every setting of the nodes. The node group for instanceTypes, market, zones,
    amiType and the cluster. The scale set for its name, group and labels.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:EksRunnerPool"
    ARGS: ClassVar[type[Args]] = EksRunnerPoolArgs
    KIND: ClassVar[str] = "eks-runners"
    ON_CLUSTER: ClassVar[str] = "eks"
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "clusterName": "ci",
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "spot",
        "max": 4,
        "runner": {"image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"},
    }

    scale_set_name: pulumi.Output[str]
    """The name for runs-on in workflows."""
    node_group_name: pulumi.Output[str]
    """Name of the node group, for programs that change or watch it."""
    autoscaling_group_name: pulumi.Output[str]
    """Name of the Auto Scaling group that EKS created for the node group."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' role."""
    verdict: pulumi.Output[str]
    """Verdict of the check: pass."""
    smoke_summary: pulumi.Output[str]
    """The Job that reported the verdict."""
    proven_nodes: pulumi.Output[int]
    """The number of nodes that passed the check."""

    def __init__(self, name: str, args: EksRunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        machine, runner = args.machines[0], args.runner
        nodes = GpuNodeGroup(
            f"{name}-nodes",
            GpuNodeGroupArgs(**{**_fields_of(GpuNodeGroupArgs, args), "pool": name}),
            self.child(),
        )
        smoke = SmokeJob(
            f"{name}-smoke",
            SmokeJobArgs(
                namespace=args.namespace,
                pool=name,
                image=args.smoke.image or runner.image,
                image_pull_secrets=runner.image_pull_secrets,
                # The runner image installs packages for its own user. The user of another image is unknown.
                run_as_user=None if args.smoke.image else runner_pod.RUNNER_UID,
                gpus=math.ceil(machine.gpu_count),
                nodes=args.smoke.nodes,
                namespace_gpus=args.namespace_gpus,
                closed_to_cluster=args.closed_to_cluster,
                # No source documents the device name of a fraction of a GPU.
                gpu=machine.gpu.device_name if machine.gpu_count >= 1 else "",
                min_compute_capability=machine.gpu.compute_capability,
                deadline_sec=args.smoke.deadline_sec,
                kubeconfig=args.kubeconfig,
                rerun_on=[nodes.generation, args.device_plugin],
            ),
            self.child(
                depends_on=[nodes],
                transformations=[
                    after_failed_check(
                        self,
                        name,
                        args.cluster_name,
                        nodes.node_group_name,
                        scaling_group=nodes.autoscaling_group_name,
                        region=args.region,
                        profile=args.profile,
                        role_arn=args.role_arn,
                    )
                ],
            ),
        )
        if args.pre_pull is not None:
            # The nodes pull a changed image while the check of that image runs. So this does not depend on the check.
            ImagePrePull(
                f"{name}-pre-pull",
                ImagePrePullArgs(
                    namespace=args.namespace,
                    pool=name,
                    images=pre_pulled_images(runner, args.pre_pull.images),
                    image_pull_secrets=runner.image_pull_secrets,
                    pause_image=args.pre_pull.pause_image,
                ),
                self.child(),
            )
        runners = RunnerScaleSet(
            f"{name}-runners",
            RunnerScaleSetArgs(
                **{**dict(runner), "scale_set_name": runner.scale_set_name or name},
                github_config_url=args.github_config_url,
                runner_group=args.runner_group,
                max=args.max_runners,
                min_idle=args.min_idle,
                pool=name,
                namespace=args.namespace,
                controller=args.controller,
                app=args.app,
            ),
            self.child(depends_on=[smoke]),
        )
        self.scale_set_name = runners.scale_set_name
        self.node_group_name = nodes.node_group_name
        self.autoscaling_group_name = nodes.autoscaling_group_name
        self.node_role_arn = nodes.node_role_arn
        self.verdict = smoke.verdict
        self.smoke_summary = pulumi.Output.all(args.namespace, smoke.job_name, smoke.proven_nodes).apply(
            lambda values: (
                f"{name}: the check passed on {'1 node' if values[2] == 1 else f'{values[2]} nodes'}; its report is in "
                f"the log of the Job {values[0]}/{values[1]}"
            )
        )
        self.proven_nodes = smoke.proven_nodes
        self.register()


def _fields_of(model: type[Args], args: Args) -> dict[str, Any]:
    """Return the values of the fields of `model` from `args`, whose model has all these fields."""
    return {name: getattr(args, name) for name in model.model_fields}
