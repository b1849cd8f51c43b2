"""GPU runners on Amazon EKS: nodes, a proof of their GPUs, and the runners that get on them once it is there."""

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
from ..kubernetes.name_types import Image, NamespaceName
from ..kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from ..kubernetes.scale_set import pod as runner_pod
from ..kubernetes.scale_set.args import ControllerReference, GithubApp, RunnerChoices
from ..kubernetes.scale_set.rules import ConfigUrl
from ..kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from . import node_capacity
from .diagnosis import after_failed_check
from .gpu_node_group import GpuNodeGroup
from .nodes.args import GpuNodeGroupArgs


class JobSmokeSettings(Args):
    """How the pool proves its GPUs before runners get on it."""

    deadline_sec: Integer = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the check's start to its end, 600 to 7200: a node that is started for it and the "
        "image that is pulled count. With several nodes, half of it is what the first waits for the last",
    )
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=100,
        description="how many nodes prove their GPUs, each another one, all started and paid for at the same time; max "
        "is the whole pool",
    )
    image: Image | None = Field(
        default=None,
        description="the container image with Python and torch that the check runs in, by its digest, as user 1000; by "
        "default the runner's, as the runner's user 1001, which then has to have both",
    )


class EksRunnerPoolArgs(GpuNodeGroupArgs):
    """What a pool of runners on EKS is made of: its nodes, and what runs on them."""

    # Which cluster a pool is on is for a person to say.
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

    runner: RunnerChoices = Field(description="what a runner is, and what a job gets")
    min_idle: Integer = Field(
        default=0,
        ge=0,
        description="how many runners wait for a job besides those that have one; each holds its GPUs, and its node "
        "costs",
    )
    smoke: JobSmokeSettings = Field(
        default=JobSmokeSettings(), description="the check before runners get on the pool's nodes"
    )

    namespace: Input[NamespaceName] = Field(description="the namespace of its pods, as a GpuNamespace gives it out")
    namespace_gpus: Integer | None = Field(
        default=None, ge=1, description="how many GPUs the namespace's pods may have together, where that is known"
    )
    closed_to_cluster: StrictBool = Field(
        default=False,
        description="whether the namespace's network policies keep its pods from the cluster's API server: the check "
        "then fails where the cluster does not enforce them",
    )
    controller: ControllerReference = Field(description="the controller that looks after its scale set")
    app: GithubApp = Field(description="the GitHub App that registers its runners")
    github_config_url: ConfigUrl = Field(description="whose jobs it takes, such as https://github.com/acme")
    runner_group: Input[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None, description="the group its runners join; for an organization or an enterprise"
    )

    kubeconfig: Input[str] | None = Field(
        default=None,
        description="the cluster's kubeconfig, by which the events of the check's pods are read when it fails",
    )
    device_plugin: Input[str] = Field(
        default=versions.DEVICE_PLUGIN_CHART,
        description="what hands out the cluster's GPUs, its version and settings; another one is another check",
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

    @classmethod
    def stand_in_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:
        wiring = super().stand_in_wiring(region, choices)
        return {
            **{name: value for name, value in wiring.items() if name != "cluster_name"},
            "namespace": "gpu-ci",
            "controller": {
                "service_account_name": "arc",
                "namespace": "arc-systems",
                "version": versions.ARC_CHARTS,
            },
            # Unchecked: what is secret has to be an Output, and those are of a running program.
            "app": GithubApp.model_construct(id="", installation_id="", private_key=""),
            "github_config_url": "https://github.com/acme",
            "runner_group": "gpu",
        }

    @property
    def max_runners(self) -> int:
        """How many runners there can be on all of its nodes."""
        return self.max * node_capacity.runners_on_a_node(self.runner, self.machines[0], self.disk_gib)


class EksRunnerPool(Component):
    """GPU runners on Amazon EKS, on nodes that are started for them and of which some have proven their GPUs.

    Creates: a GpuNodeGroup, a SmokeJob on one of its nodes or on smoke.nodes of them, and a RunnerScaleSet that is made
    once the check has passed, and changed only once a check of what its nodes are now made of has passed.
    Costs: nothing while no node runs and minIdle is 0; whatever the nodes are made of anew costs smoke.nodes nodes, by
    default one, for the minutes of its check.
    Does not: make the cluster, its autoscaler, the device plugin, the namespace or the controller. EKS changes nodes in
    place, so where the check fails they are changed already, and runners of the scale set as it was get on them.
    Replaces on change of: what its parts replace. The check is made anew for all that nodes are made of; the node group
    for instanceTypes, market, zones, amiType and the cluster; the scale set for its name, group and labels.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:EksRunnerPool"
    ARGS: ClassVar[type[Args]] = EksRunnerPoolArgs
    KIND: ClassVar[str] = "eks-runners"
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "clusterName": "ci",
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "spot",
        "max": 4,
        "runner": {"image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"},
    }

    scale_set_name: pulumi.Output[str]
    """What workflows write as runs-on."""
    node_group_name: pulumi.Output[str]
    """Name of the node group, for what changes or watches it."""
    autoscaling_group_name: pulumi.Output[str]
    """Name of the Auto Scaling group EKS made for it."""
    node_role_arn: pulumi.Output[str]
    """The identity of the nodes."""
    verdict: pulumi.Output[str]
    """What the check of the nodes said: pass."""
    smoke_summary: pulumi.Output[str]
    """Which Job said so."""
    proven_nodes: pulumi.Output[int]
    """How many nodes have passed it, each another one."""

    def __init__(self, name: str, args: EksRunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        machine, runner = args.machines[0], args.runner
        nodes = GpuNodeGroup(
            f"{name}-nodes",
            GpuNodeGroupArgs(**{**_those_of(GpuNodeGroupArgs, args), "pool": name}),
            self.child(),
        )
        smoke = SmokeJob(
            f"{name}-smoke",
            SmokeJobArgs(
                namespace=args.namespace,
                pool=name,
                image=args.smoke.image or runner.image,
                image_pull_secrets=runner.image_pull_secrets,
                # The runner's image has its packages for its own user; of another image no user is known.
                run_as_user=None if args.smoke.image else runner_pod.RUNNER_UID,
                gpus=math.ceil(machine.gpu_count),
                nodes=args.smoke.nodes,
                namespace_gpus=args.namespace_gpus,
                closed_to_cluster=args.closed_to_cluster,
                # What a fraction of a GPU calls itself, no source tells.
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
            lambda found: (
                f"{name}: the check ended well on {'1 node' if found[2] == 1 else f'{found[2]} nodes'}, and what it "
                f"found is in the log of the Job {found[0]}/{found[1]}"
            )
        )
        self.proven_nodes = smoke.proven_nodes
        self.register()


def _those_of(model: type[Args], args: Args) -> dict[str, Any]:
    """The fields one model shares with another."""
    return {name: getattr(args, name) for name in model.model_fields}
