"""The types of pulumi-aws that the sandbox knows beyond their shape in the SDK: one row of types.toml for each.

A property has the same name in pulumi-aws and in AWS's schema, except for case. Differences are in `fields`. The key is
the path of names in pulumi-aws. The value is the path in the schema, relative to the parent object.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.bridged import Naming

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
INSTANCE = "aws:ec2/instance:Instance"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
CAPACITY_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
SUBNET = "aws:ec2/subnet:Subnet"
VPC = "aws:ec2/vpc:Vpc"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
POLICY = "aws:iam/policy:Policy"
OIDC_PROVIDER = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
TAG = "aws:ec2/tag:Tag"
AMI = "aws:ec2/ami:Ami"


@dataclass(frozen=True)
class Row:
    """What the sandbox knows of one type. Placeholders in `id` and `arn` are inputs, or of Aws._placeholders."""

    naming: Naming = field(default_factory=Naming)
    id: str = ""
    """The form of the id."""
    id_prefix: str = ""
    """The prefix of an id that AWS generates, before 17 hexadecimal digits."""
    arn: str = ""
    """The ARN after `arn:aws:`."""
    arn_is_id: bool = False
    overwritten: bool = False
    """True if a create replaces an existing resource."""
    replaces: tuple[str, ...] | None = None
    """The properties whose change replaces the resource, if CloudFormation's schema does not know them."""
    schema: str = ""
    """The type in CloudFormation's schemas, which check the inputs."""
    base: tuple[str, ...] = ()
    """The path of the resource's properties in the schema."""
    fields: dict[str, str] = field(default_factory=dict)
    loose: tuple[str, ...] = ()
    """Objects whose structure differs in pulumi-aws. Their required properties are not checked."""


def _row(naming: dict[str, Any], replaces: list[str] | None, **values: Any) -> Row:
    return Row(Naming(**naming), replaces=None if replaces is None else tuple(replaces), **values)


ROWS = {
    token: _row(values.pop("naming", {}), values.pop("replaces", None), **values)
    for token, values in tomllib.loads(Path(__file__).with_name("types.toml").read_text(encoding="utf-8")).items()
}
TARGETS = {token: row for token, row in ROWS.items() if row.schema}
NO_ROW = Row()


def row(token: str) -> Row:
    """Return the row of a type, or an empty one."""
    return ROWS.get(token, NO_ROW)
