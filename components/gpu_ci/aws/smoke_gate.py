"""The custom resource SmokeGate of AWS. Its creation runs the smoke check of a launch template, and fails with it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pulumi
from pydantic import Field

from ..args import Args, Input, Integer
from ..plugin_resource import PluginResource
from .resource_names import ZONE, BucketName, Region, ReservationId, SubnetId

Zone = Annotated[str, Field(pattern=ZONE)]


class SmokeGateArgs(Args):
    """The launch template that is checked, and the places in which the check machine may run."""

    region: Input[Region] = Field(description="the region of the launch template, such as us-east-1")
    template: Input[Annotated[str, Field(pattern=r"^[a-z0-9-]+:[1-9][0-9]*$")]] = Field(
        description="id and version of the launch template to check, such as lt-0a1b2c3d4e5f60718:3; another template "
        "or version creates a new gate"
    )
    zones: Input[Annotated[list[Zone], Field(min_length=1)]] = Field(
        description="zones of the region to try in order for the check machine, such as [us-east-1a]"
    )
    subnets: Input[dict[str, SubnetId]] = Field(description="the subnet of the check machine for each zone")
    security_groups: Input[Annotated[list[str], Field(min_length=1, max_length=5)]] = Field(
        description="the security groups of the check machine"
    )
    market: Input[Literal["spot", "standard", "reservation"]] = Field(
        default="spot", description="how the check machine is bought: spot, standard, or reservation (a Capacity Block)"
    )
    capacity_reservation_id: Input[ReservationId] | None = Field(
        default=None, description="the capacity reservation that has the check machine"
    )
    mailbox_bucket: Input[BucketName] = Field(
        description="the bucket of an aws.Mailbox with `gate: true`, through which the machine reports its verdict"
    )
    mailbox_region: Input[Region] = Field(description="the region of the bucket, such as us-east-1")
    pool: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the pool's name, used in the name and the tags of the check machine"
    )
    tags: Input[dict[str, str]] = Field(default={}, description="tags of the check machine")
    deadline_sec: Input[Annotated[Integer, Field(ge=60, le=7200)]] = Field(
        default=1200, description="seconds from the start of the check machine to its verdict, 60 to 7200"
    )
    on_no_capacity: Input[Literal["fail", "unproven"]] = Field(
        default="fail", description="the result if no zone has a machine for the check: fail, or unproven"
    )


class SmokeGate(PluginResource):
    """A smoke check of a launch template on one EC2 instance. The creation of the resource fails if the check fails.

    Creates: no permanent resources. It starts one instance from the template, waits for the verdict of the check that
    runs at boot, and terminates the instance. The instance also terminates itself 5 minutes after the deadline.
    Costs: one instance for some minutes.
    Deletes with this resource: remaining check machines.
    Does not: repeat a check that passed. Only a change of template or pool starts a new check. The settings of an
    aws.Provider do not apply. The gate uses the AWS credentials of the environment as the `aws` command does. They
    sign the URLs of the check machine, so a session must last longer than the check.
    Replaces on change of: template, pool; and onNoCapacity of a gate that is still unproven.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:SmokeGate"
    ARGS: ClassVar[type[Args]] = SmokeGateArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "template": "lt-0a1b2c3d4e5f60718:3",
        "zones": ["us-east-1a", "us-east-1b"],
        "securityGroups": ["sg-0a1b2c3d4e5f60718"],
        "mailboxBucket": "mailbox-us-east-1-bucket-1a2b3c4",
        "mailboxRegion": "us-east-1",
        "pool": "a10g",
    }
    OUTPUTS: ClassVar[tuple[str, ...]] = ("checked_template", "verdict", "summary", "zone")

    checked_template: pulumi.Output[str]
    """The template after its check. Resources that use this output wait for the verdict."""
    verdict: pulumi.Output[str]
    """Verdict of the check: pass, or unproven if no zone had a machine and onNoCapacity is unproven."""
    summary: pulumi.Output[str]
    """Summary that the check reported about its machine."""
    zone: pulumi.Output[str]
    """Zone in which the check ran; empty if it did not run."""

    def __init__(self, name: str, args: SmokeGateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
