"""The component ToyPool: a template of one machine, which is on as long as the stack exists."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_ci.args import Args
from gpu_ci.component import Component
from gpu_ci.labels import merge

from .args import ToyPoolArgs
from .kind import KIND


class ToyPool(Component):
    """A toy pool.

    Creates: an instance template.
    Costs: nothing.
    Does not: start a machine.
    Replaces on change of: the template for every field.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = ToyPoolArgs
    ENTRY_NAME: ClassVar[str] = KIND.entry_name
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

    template: pulumi.Output[str]
    """Link of the instance template."""

    def __init__(self, name: str, args: ToyPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        template = gcp.compute.RegionInstanceTemplate(
            f"{name}-template",
            region=args.region,
            project=args.project,
            machine_type=args.machine_type,
            labels=merge(args.labels, {"gpu-ci-pool": name}),
            disks=[
                gcp.compute.RegionInstanceTemplateDiskArgs(source_image="projects/debian-cloud/global/images/debian-12")
            ],
            opts=self.child(),
        )
        self.template = template.self_link
        self.register()
