"""A kind of pool with one machine, which is on as long as the stack exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import gpu_catalog
import pulumi
import pulumi_gcp as gcp
from gpu_ci.args import Args, Input
from gpu_ci.component import Component
from gpu_ci.labels import Labels, merge
from gpu_ci.pool_args import PoolArgs, Surroundings
from pydantic import Field


class ToyPoolArgs(PoolArgs):
    """The arguments of a toy pool."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels"})
    CREATES: ClassVar[tuple[str, ...]] = ("gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",)

    machine_type: str = Field(description="a machine type with a GPU, such as g2-standard-4")
    region: str = Field(default="us-central1", description="the region of the machine")
    project: Input[str] = Field(description="the id of the Google Cloud project")
    labels: Labels = Field(default={}, description="labels of the machine")

    @classmethod
    def placeholder_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:
        return {"project": "acme-ci"}

    def demand(self, name: str) -> gpu_catalog.Demand:
        machine = gpu_catalog.machine(self.machine_type)
        market = gpu_catalog.market("standard")
        return gpu_catalog.Demand(
            pool=name, machine=machine, market=market, region=self.region, max_machines=1,
            boot_disk="pd-balanced", boot_disk_gib=50,
        )  # fmt: skip

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        yield f"{path}: is a toy"


class ToyPool(Component):
    """A toy pool.

    Creates: an instance template.
    Costs: nothing.
    Does not: start a machine.
    Replaces on change of: the template for every field.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:ToyPool"
    ARGS: ClassVar[type[Args]] = ToyPoolArgs
    KIND: ClassVar[str] = "toy-machines"
    ENTRY_NAME: ClassVar[str] = "toy"
    EXAMPLE: ClassVar[dict[str, Any]] = {"machineType": "g2-standard-4"}

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
