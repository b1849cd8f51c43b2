"""The component EksRunnerPool: a node group on Amazon EKS, a smoke check of its GPUs, and GitHub runners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi
from gpu_catalog import Machine
from pydantic import Field

from .. import naming, versions
from ..args import Args, Input
from ..component import Component
from ..kubernetes.pool.args import RunnerPoolArgs
from ..kubernetes.pool.rules import Node
from ..kubernetes.pool.runners import checked_runners
from .diagnosis import after_failed_check
from .gpu_node_group import GpuNodeGroup
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
        nodes = GpuNodeGroup(
            naming.of_part(name, "nodes"),
            GpuNodeGroupArgs(**{**args.fields_of(GpuNodeGroupArgs), "pool": name}),
            self.child(),
        )
        runners = checked_runners(
            self,
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
        self.scale_set_name = runners.scale_set_name
        self.node_group_name = nodes.node_group_name
        self.autoscaling_group_name = nodes.autoscaling_group_name
        self.node_role_arn = nodes.node_role_arn
        self.verdict = runners.verdict
        self.smoke_summary = runners.smoke_summary
        self.proven_nodes = runners.proven_nodes
        self.register()
