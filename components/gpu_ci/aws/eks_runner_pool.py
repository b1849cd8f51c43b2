"""The component EksRunnerPool: a node group on Amazon EKS, a smoke check of its GPUs, and GitHub runners."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pulumi
from gpu_catalog import Machine
from pydantic import Field

from .. import naming, versions
from ..args import Args, Input
from ..kubernetes.pool.args import RunnerPoolArgs
from ..kubernetes.pool.rules import Node
from ..kubernetes.pool.runners import ClusterRunnerPool
from .gpu_node_group import GpuNodeGroup
from .limits.eks_api import Account, ApiError, AwsClient
from .nodes import rules
from .nodes.args import GpuNodeGroupArgs
from .nodes.launch_template import NODE_GROUP_LABEL, free_for_pods_gib
from .nodes.rules import machines_of

# The CPUs and memory of a node that runners cannot use. The kubelet reserves memory for each possible pod, and the pods
# of the cluster itself run on the node, too (awslabs/amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). The
# real amount varies. These values are estimates of this project, with a margin. A pod that fits on no node would stay
# pending without an error. The pod of prePull is part of the margin: a whole CPU for its 10 thousandths of a CPU would
# be too much. A test computes the margin of every instance type.
_RESERVED_CPUS = 1
_USABLE_MEMORY_SHARE, _RESERVED_MEMORY_GIB = 0.9, 1


def free_for_pods(machine: Machine) -> tuple[int, int]:
    """Return the CPUs and the GiB of memory that all pods of one node can use."""
    return machine.vcpus - _RESERVED_CPUS, int(machine.memory_gib * _USABLE_MEMORY_SHARE) - _RESERVED_MEMORY_GIB


def node(machine: Machine, fields: Mapping[str, Any]) -> Node:
    """Return a node of this instance type, with the disks of a pool with these fields. Invalid fields are missing."""
    cpus, memory_gib = free_for_pods(machine)
    disk_gib = rules.for_pods_gib(fields)
    free_disk_gib = None if disk_gib is None else free_for_pods_gib(disk_gib)
    larger_disk = "a larger instance type" if fields.get("instance_store") else "a larger diskGib"
    return Node(machine, cpus, memory_gib, disk_gib, free_disk_gib, "instance type", larger_disk)


class EksRunnerPoolArgs(RunnerPoolArgs, GpuNodeGroupArgs):
    """The arguments of a runner pool on EKS: its nodes, and the software that runs on them."""

    WIRING: ClassVar[frozenset[str]] = (
        RunnerPoolArgs.WIRING | (GpuNodeGroupArgs.WIRING - {"cluster_name"}) | {"device_plugin"}
    )

    device_plugin: Input[str] = Field(
        default=versions.DEVICE_PLUGIN_CHART,
        description="the device plugin's version and settings; after a change, the check runs again",
    )

    @classmethod
    def node_of(cls, fields: Mapping[str, Any]) -> Node | None:
        machines = machines_of(fields)
        return node(machines[0], fields) if machines else None


class EksRunnerPool(ClusterRunnerPool):
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
    INIT_OPTIONS: ClassVar[tuple[str, ...]] = (
        "cluster", "subnets", "runner_image", "organization", "repositories", "aws_account",
    )  # fmt: skip
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "clusterName": "ci",
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "spot",
        "max": 4,
        "runner": {"image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"},
    }

    node_group_name: pulumi.Output[str]
    """Name of the node group, for programs that change or watch it."""
    autoscaling_group_name: pulumi.Output[str]
    """Name of the Auto Scaling group that EKS created for the node group."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' role."""

    def __init__(self, name: str, args: EksRunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        nodes = GpuNodeGroup(
            naming.of_part(name, "nodes"),
            GpuNodeGroupArgs(**{**args.fields_of(GpuNodeGroupArgs), "pool": name}),
            self.child(),
        )
        self.add_runners(
            name,
            args,
            nodes,
            rerun_on=[nodes.generation, args.device_plugin],
            node_labels={NODE_GROUP_LABEL: nodes.node_group_name},
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
        )
        self.node_group_name = nodes.node_group_name
        self.autoscaling_group_name = nodes.autoscaling_group_name
        self.node_role_arn = nodes.node_role_arn
        self.register()


_MOST_ACTIVITIES = 3
# The messages of Auto Scaling are long. If a zone has no capacity for an instance type, the message lists other zones.
_MOST_CHARACTERS = 400


class AwsHealth:
    """Queries what AWS reports about a node group whose smoke check has failed."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def issues(self, cluster: str, group: str) -> list[Mapping[str, Any]]:
        """Return EKS's health issues of a node group."""
        found = AwsClient("eks", self._account).call("describe_nodegroup", clusterName=cluster, nodegroupName=group)
        return list(found["nodegroup"].get("health", {}).get("issues", []))

    def activities(self, scaling_group: str) -> list[Mapping[str, Any]]:
        """Return the most recent activities of Auto Scaling, the newest first."""
        found = AwsClient("autoscaling", self._account).call(
            "describe_scaling_activities", AutoScalingGroupName=scaling_group, MaxRecords=_MOST_ACTIVITIES
        )
        return list(found.get("Activities", []))


def after_failed_check(
    owner: pulumi.Resource, pool: str, cluster: pulumi.Input[str], group: pulumi.Input[str], **account: Any
) -> pulumi.ResourceTransformation:
    """Return a transformation for the smoke check's Job. If the Job fails, AWS's reports appear as a warning.

    Cluster, group and account may be Outputs. Their values are known when the Job fails, because the Job runs on the
    nodes of the group.

    Args:
        owner: The component under which the warning is shown.
        pool: The pool's name.
        cluster: The cluster's name.
        group: The name of the node group.
        account: The scaling_group, region, profile and role_arn.
    """
    values: dict[str, Any] = {}
    pulumi.Output.all(cluster=cluster, group=group, **account).apply(values.update)

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation == "create" and values:
            aws_account = Account(values["region"], values["profile"] or "", values["role_arn"] or "")
            text = aws_report(aws_account, values["cluster"], values["group"], values["scaling_group"])
            pulumi.log.warn(f"{pool}: {text}", owner)
        return False  # do not retry the Job

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        # A Job without hooks means that the engine does not support them (smoke_job.py).
        if args.type_ != "kubernetes:batch/v1:Job" or args.opts.hooks is None:
            return None
        options = copy.copy(args.opts)
        options.hooks = copy.copy(args.opts.hooks)
        options.hooks.on_error = [*(options.hooks.on_error or []), pulumi.ErrorHook(f"{args.name}-aws-report", warn)]
        return pulumi.ResourceTransformationResult(args.props, options)

    return transform


def aws_report(account: Account, cluster: str, group: str, scaling_group: str) -> str:
    """Return the issues of EKS and the last activities of Auto Scaling as lines. A failed query is a line, too."""
    queries = AwsHealth(account)
    lines = [
        *_lines("EKS", lambda: [_issue(each) for each in queries.issues(cluster, group)]),
        *_lines("Auto Scaling", lambda: [_activity(each) for each in queries.activities(scaling_group)]),
    ]
    return f"what AWS reports of the node group {group}:\n" + "\n".join(f"  {line}" for line in lines)


def _lines(service: str, query: Callable[[], list[str]]) -> list[str]:
    try:
        found = query()
    except ApiError as error:
        return [f"{service} could not be queried: {error}"]
    return [f"{service}: {line}" for line in found] or [f"{service}: nothing"]


def _issue(issue: Mapping[str, Any]) -> str:
    on = ", ".join(issue.get("resourceIds", []))
    return _short(f"{issue.get('code')}: {issue.get('message')}{f' ({on})' if on else ''}")


def _activity(activity: Mapping[str, Any]) -> str:
    parts = (activity.get("StatusCode"), activity.get("Description"), activity.get("StatusMessage"))
    return _short(": ".join(str(part) for part in parts if part))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
