"""The component GpuInstanceTemplate: an instance template of a GPU machine, for programs without a runner pool."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
from pydantic import AfterValidator, Field

from ..args import Args, ComponentArgs, Input, Integer
from ..component import Component
from ..labels import merge
from .machine.args import GpuMachineArgs
from .machine.boot import custom_metadata
from .machine.template import machine_template
from .resource_names import ServiceAccountEmail


class GpuInstanceTemplateArgs(GpuMachineArgs, ComponentArgs):
    """The arguments of an instance template for GPU machines."""

    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | {"service_account_email", "metadata"}

    smoke_deadline_sec: Integer = Field(
        default=1200,
        ge=120,
        le=3600,
        description="the time limit of the GPU check at boot, in seconds from the start of a machine, 120 to 3600",
    )
    service_account_email: Input[ServiceAccountEmail] = Field(
        description="the service account of the machines, as <name>@<project>.iam.gserviceaccount.com"
    )
    metadata: Annotated[dict[str, Input[str]], AfterValidator(custom_metadata)] = Field(
        default={},
        description="additional metadata for the software on the machines; no secrets, because every process on a "
        "machine can read it",
    )


class GpuInstanceTemplate(Component):
    """A regional instance template of a GPU machine that installs its driver and checks its GPU when it boots.

    Creates: the template. Costs: nothing. Machines created from the template cost.
    Does not: check the template. A SmokeGate checks it: set `template` of the SmokeGate to `selfLink`, and use the
    output `checkedTemplate` of the SmokeGate for resources that create machines. Machines have no public address. To
    install a driver or torch, the network needs internet access, such as Cloud NAT.
    Replaces on change of: the template for every field, because Google does not allow changes of a template.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:GpuInstanceTemplate"
    ARGS: ClassVar[type[Args]] = GpuInstanceTemplateArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "market": "spot",
    }

    self_link: pulumi.Output[str]
    """Self link of the template, for programs that create machines from it."""
    region: pulumi.Output[str]
    """Region of the template."""

    def __init__(self, name: str, args: GpuInstanceTemplateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        template = machine_template(
            f"{name}-template",
            name,
            args,
            account=args.service_account_email,
            tags=merge(args.labels, {"gpu-ci-pool": name}),
            deadline_sec=args.smoke_deadline_sec,
            opts=self.child(),
            metadata=args.metadata,
        )
        self.self_link = template.self_link
        self.region = template.region
        self.register()
