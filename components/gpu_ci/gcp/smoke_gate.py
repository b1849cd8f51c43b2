"""The custom resource SmokeGate (a gate). Its creation runs the smoke check of a template, and fails with the check."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pulumi
from pydantic import Field

from ..args import Args, Input, Integer
from ..labels import AllLabels
from ..plugin_resource import PluginResource
from .resource_names import Template, Zone


class SmokeGateArgs(Args):
    """The template that is checked, and the zones in which the check machine may run."""

    project: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the id of the Google Cloud project of the check machine"
    )
    template: Input[Template] = Field(
        description="self link of the regional instance template to check, as "
        "projects/<project>/regions/<region>/instanceTemplates/<name>; another template creates a new gate"
    )
    zones: Input[Annotated[list[Zone], Field(min_length=1)]] = Field(
        description="zones of the template's region to try in order for the check machine, such as [us-central1-a]"
    )
    pool: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the pool's name, used in the name and the labels of the check machine"
    )
    labels: Input[AllLabels] = Field(default={}, description="labels of the check machine")
    deadline_sec: Input[Annotated[Integer, Field(ge=60, le=7200)]] = Field(
        default=1200, description="seconds from the start of the check machine to its verdict, 60 to 7200"
    )
    on_no_capacity: Input[Literal["fail", "unproven"]] = Field(
        default="fail", description="the result if no zone has a machine for the check: fail, or unproven"
    )


class SmokeGate(PluginResource):
    """A smoke check of a template on one machine. The creation of the resource fails if the check fails.

    Creates: no permanent resources. It starts one machine from the template, waits for the verdict of the check that
    runs at boot, and deletes the machine.
    Costs: one machine for some minutes.
    Deletes with this resource: remaining check machines, and stopped machines that a runner manager created from the
    template.
    Does not: repeat a check that passed. Only a change of template, project or pool starts a new check.
    Replaces on change of: template, project, pool; and onNoCapacity of a gate that is still unproven.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:SmokeGate"
    ARGS: ClassVar[type[Args]] = SmokeGateArgs
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
