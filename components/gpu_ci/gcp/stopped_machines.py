"""The custom resource StoppedMachines. When it is deleted, it deletes the stopped machines of a runner manager."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pulumi
from pydantic import Field

from ..args import Args, Input
from ..plugin_resource import PluginResource
from .resource_names import Template


class StoppedMachinesArgs(Args):
    """The templates whose stopped machines are deleted."""

    project: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the id of the Google Cloud project of the machines"
    )
    templates: Input[Annotated[list[Template], Field(min_length=1)]] = Field(
        description="self links of the regional instance templates, as "
        "projects/<project>/regions/<region>/instanceTemplates/<name>"
    )


class StoppedMachines(PluginResource):
    """Deletes the stopped machines of a runner manager when the manager is removed from the stack.

    Creates: nothing, because the manager creates the machines. Costs: nothing.
    Deletes with this resource: stopped machines with the label of a manager that were created from one of the
    templates. Running machines stay, because they may have a job.
    Does not: delete machines of an earlier template. The SmokeGate of that template deletes them.
    Replaces on change of: project.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:StoppedMachines"
    ARGS: ClassVar[type[Args]] = StoppedMachinesArgs

    def __init__(self, name: str, args: StoppedMachinesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
