"""The component EksRunnerPool: a node group on Amazon EKS, a smoke check of its GPUs, and GitHub runners."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi

from ... import naming
from ...args import Args
from ...aws.gpu_node_group import GpuNodeGroup
from ...aws.nodes.args import GpuNodeGroupArgs
from ...aws.nodes.launch_template import NODE_GROUP_LABEL
from ...kubernetes.pool.runners import ClusterRunnerPool
from .args import EksRunnerPoolArgs
from .health import after_failed_check
from .kind import KIND


class EksRunnerPool(ClusterRunnerPool):
    """GPU runners on Amazon EKS. Their nodes start on demand, and a check of some nodes must pass before runners start.

    Creates: a GpuNodeGroup, a SmokeJob on smoke.nodes of its nodes, and a RunnerScaleSet. With prePull, also an
    ImagePrePull, and with proveNodes a Deployment. The scale set is created or changed only after the check of the
    current nodes has passed.
    Costs: nothing while no node runs and minIdle is 0. Each change of the nodes costs smoke.nodes nodes, by default
    one, for the minutes of the check.
    Does not: create the cluster, its autoscaler, the device plugin, the namespace or the controller. EKS changes nodes
    in place. If the check fails, the nodes are already changed, and runners of the previous scale set start on them.
    Replaces on change of: the check for every setting of the nodes. The node group for instanceTypes, market, zones,
    amiType and the cluster. The scale set for its name, group and labels.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = EksRunnerPoolArgs
    ON_CLUSTER: ClassVar[str] = KIND.on_cluster
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

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
            GpuNodeGroupArgs(
                **{**args.fields_of(GpuNodeGroupArgs), "pool": name, "unproven": args.prove_nodes is not None}
            ),
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
