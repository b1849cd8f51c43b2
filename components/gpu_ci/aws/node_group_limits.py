"""The custom resource NodeGroupLimits: changes the maximum size of a node group without terminating running nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pulumi
from pydantic import Field

from ..args import Args, Input, Integer
from ..plugin_resource import PluginResource
from .resource_names import ClusterName, Profile, Region, RoleArn


class NodeGroupLimitsArgs(Args):
    """The node group and its maximum number of nodes."""

    region: Input[Region] = Field(description="the region of the cluster, such as us-east-1")
    cluster_name: Input[ClusterName] = Field(description="the name of the EKS cluster")
    node_group_name: Input[Annotated[str, Field(min_length=1, max_length=63)]] = Field(
        description="the name of the managed node group"
    )
    max_size: Input[Annotated[Integer, Field(ge=1, le=1000)]] = Field(
        description="the maximum number of nodes of the group at any time, 1 to 1000"
    )
    autoscaling_group_name: Input[Annotated[str, Field(min_length=1, max_length=255)]] | None = Field(
        default=None,
        description="the Auto Scaling group of a node group in several zones; its zone balancing (AZRebalance), "
        "which can terminate busy nodes, is suspended",
    )
    generation: Input[str] | None = Field(
        default=None,
        description="an identifier of the nodes' configuration; after a change, AZRebalance is suspended again",
    )
    profile: Input[Profile] | None = Field(
        default=None,
        description="an AWS CLI profile; by default the credentials of the environment",
    )
    role_arn: Input[RoleArn] | None = Field(default=None, description="a role to assume with those credentials")


class NodeGroupLimits(PluginResource):
    """The maximum number of nodes of a managed node group, changed without its desired size.

    With every change of a size, pulumi-aws also sends the desired size of the last `up` or refresh. EKS then terminates
    the nodes that an autoscaler has started since then, and with them the running jobs. To prevent this, the resource
    calls UpdateNodegroupConfig with maxSize only.

    For a group in several zones, the resource also suspends AZRebalance of the Auto Scaling group. AZRebalance is the
    process that terminates nodes, even busy nodes, after an autoscaler has removed a node in another zone.

    Creates: nothing; it changes an existing group. Costs: nothing.
    Does not: terminate nodes. If more nodes run than `maxSize` allows, the group's maximum stays at the number of
    running nodes, with a warning. The next `up` lowers it further. The settings of an aws.Provider do not apply to this
    resource. It uses the AWS credentials of the environment as the `aws` command does, or `profile` and `roleArn`.
    Replaces on change of: region, clusterName, nodeGroupName.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:NodeGroupLimits"
    ARGS: ClassVar[type[Args]] = NodeGroupLimitsArgs
    OUTPUTS: ClassVar[tuple[str, ...]] = ("current_max_size", "zone_balancing")

    current_max_size: pulumi.Output[int]
    """Current maximum of the group, which is above maxSize while more nodes run."""
    zone_balancing: pulumi.Output[str]
    """State of AZRebalance: suspended, active if AWS rejected the suspension, or unchanged for one zone."""

    def __init__(self, name: str, args: NodeGroupLimitsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
