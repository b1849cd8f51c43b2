"""The arguments of the kind toy-machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import gpu_catalog
from gpu_ci.args import Input
from gpu_ci.labels import Labels
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

    def demand(self, name: str) -> gpu_catalog.Demand:
        machine = gpu_catalog.machine(self.machine_type)
        market = gpu_catalog.market("standard")
        return gpu_catalog.Demand(
            pool=name, machine=machine, market=market, region=self.region, max_machines=1,
            boot_disk="pd-balanced", boot_disk_gib=50,
        )  # fmt: skip

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        yield f"{path}: is a toy"
