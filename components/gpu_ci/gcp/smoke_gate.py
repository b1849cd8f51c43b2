"""The gate between a template and its pool, as a resource: it exists once the template has proven its GPU."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pulumi
from pydantic import Field
from pydantic.alias_generators import to_camel

from .. import versions
from ..args import Args, Input, Integer
from ..labels import AllLabels
from .resource_names import Template, Zone


class SmokeGateArgs(Args):
    """What is checked, and where a machine for it may be had."""

    project: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the Google Cloud project the check machine runs in"
    )
    template: Input[Template] = Field(
        description="self link of the regional instance template to check, as "
        "projects/<project>/regions/<region>/instanceTemplates/<name>; a new one is a new gate"
    )
    zones: Input[Annotated[list[Zone], Field(min_length=1)]] = Field(
        description="zones to try in turn for the check machine, of the template's region, such as [us-central1-a]"
    )
    pool: Input[Annotated[str, Field(min_length=1)]] = Field(
        description="the pool's name; the check machine is named and labelled after it"
    )
    labels: Input[AllLabels] = Field(default={}, description="labels put on the check machine")
    deadline_sec: Input[Annotated[Integer, Field(ge=60, le=7200)]] = Field(
        default=1200, description="seconds from the start of the check machine to its verdict, 60 to 7200"
    )
    on_no_capacity: Input[Literal["fail", "unproven"]] = Field(
        default="fail", description="what it means when no zone has a machine for the check: fail, or unproven"
    )


class SmokeGate(pulumi.CustomResource):
    """A template that has proven its GPU on one machine, or an error that says what the check found.

    Creates: nothing that stays. It starts one machine from the template, waits for the verdict of the check that runs
    at its boot, and deletes it. Costs: that machine, for those minutes.
    Deletes with this resource: check machines that were left, and machines that a runner manager made from the template
    and that are off.
    Does not: check again what has passed; only another template, project or pool asks anew.
    Replaces on change of: template, project, pool; and onNoCapacity of a gate that is still unproven.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:SmokeGate"
    ARGS: ClassVar[type[Args]] = SmokeGateArgs
    OUTPUTS: ClassVar[tuple[str, ...]] = ("checked_template", "verdict", "summary", "zone")

    checked_template: pulumi.Output[str]
    """The template, now that it is checked: what takes it waits for the verdict."""
    verdict: pulumi.Output[str]
    """pass, or unproven where no zone had a machine and the gate was told to go on."""
    summary: pulumi.Output[str]
    """The check's own sentence about the machine it ran on."""
    zone: pulumi.Output[str]
    """Where the check ran; empty when it could not."""

    def __init__(self, name: str, args: SmokeGateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args.about(f"SmokeGate '{name}'")
        # The version tells the engine which plugin to ask, whatever the program's own provider versions are.
        defaults = pulumi.ResourceOptions(version=versions.PACKAGE)
        # Named as the engine names them: Pulumi's renaming would reach into the labels too.
        given = {to_camel(field): getattr(args, field) for field in SmokeGateArgs.model_fields}
        outputs = dict.fromkeys(map(to_camel, self.OUTPUTS))
        super().__init__(self.TYPE, name, {**given, **outputs}, pulumi.ResourceOptions.merge(defaults, opts))
        for output in self.OUTPUTS:
            setattr(self, output, self.__dict__[to_camel(output)])
