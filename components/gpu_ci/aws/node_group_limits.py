"""The most nodes of a node group, as a resource of its own, so that a change of it leaves running nodes alone."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pulumi
from pydantic import Field
from pydantic.alias_generators import to_camel

from .. import versions
from ..args import Args, Input, Integer
from .resource_names import ClusterName, Profile, Region, RoleArn


class NodeGroupLimitsArgs(Args):
    """Which node group, and how many nodes it may have."""

    region: Input[Region] = Field(description="the region of the cluster, such as us-east-1")
    cluster_name: Input[ClusterName] = Field(description="the name of the EKS cluster")
    node_group_name: Input[Annotated[str, Field(min_length=1, max_length=63)]] = Field(
        description="the name of the managed node group"
    )
    max_size: Input[Annotated[Integer, Field(ge=1, le=1000)]] = Field(
        description="the most nodes the group may have at any time, 1 to 1000"
    )
    autoscaling_group_name: Input[Annotated[str, Field(min_length=1, max_length=255)]] | None = Field(
        default=None,
        description="the Auto Scaling group of a node group in several zones: it is kept from ending nodes in one zone "
        "to have as many in each (AZRebalance)",
    )
    generation: Input[str] | None = Field(
        default=None, description="what the nodes are made of; after a change of it, AZRebalance is suspended again"
    )
    profile: Input[Profile] | None = Field(
        default=None,
        description="a profile of the AWS command line's configuration; by default the credentials of the environment",
    )
    role_arn: Input[RoleArn] | None = Field(default=None, description="a role to assume with those credentials")


class NodeGroupLimits(pulumi.CustomResource):
    """The most nodes of a managed node group, changed without its desired size.

    pulumi-aws sends the desired size with every change of a size, and the state knows the one of the last `up` or
    refresh alone. EKS then ends the nodes that an autoscaler has started since, and the jobs on them. This resource
    calls UpdateNodegroupConfig with maxSize alone.

    For a group in several zones it also suspends AZRebalance of the Auto Scaling group, which ends busy nodes after an
    autoscaler removed one in another zone.

    Creates: nothing; it changes a group that exists. Costs: nothing.
    Does not: end nodes. Where more nodes run than `maxSize` allows, the group keeps room for those that run, a warning
    reports it, and the next `up` lowers it further. The settings of an aws.Provider do not reach it: it uses the AWS
    credentials of the environment as the `aws` command does, or `profile` and `roleArn`.
    Replaces on change of: region, clusterName, nodeGroupName.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:NodeGroupLimits"
    ARGS: ClassVar[type[Args]] = NodeGroupLimitsArgs
    OUTPUTS: ClassVar[tuple[str, ...]] = ("current_max_size", "zone_balancing")

    current_max_size: pulumi.Output[int]
    """The group's maximum now; more than maxSize while more nodes run."""
    zone_balancing: pulumi.Output[str]
    """AZRebalance of the Auto Scaling group: suspended, active where AWS refused that, or unchanged in one zone."""

    def __init__(self, name: str, args: NodeGroupLimitsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args.about(f"NodeGroupLimits '{name}'")
        # The version tells the engine which plugin to ask, whatever the program's own provider versions are.
        defaults = pulumi.ResourceOptions(version=versions.PACKAGE)
        fields = {field: getattr(args, field) for field in NodeGroupLimitsArgs.model_fields}
        given = {to_camel(field): value for field, value in fields.items() if value is not None}
        outputs = dict.fromkeys(map(to_camel, self.OUTPUTS))
        super().__init__(self.TYPE, name, {**given, **outputs}, pulumi.ResourceOptions.merge(defaults, opts))
        for output in self.OUTPUTS:
            setattr(self, output, self.__dict__[to_camel(output)])
