"""What the pools of a stack cost: those of machines by the hour, and those that are billed by what runs on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from gpu_catalog import cost

from ..args import Args
from .quotas import demands


@runtime_checkable
class Billed(Protocol):
    """Arguments of a pool whose machines somebody else starts, and bills by another unit than hours."""

    machine_type: str
    region: str

    @property
    def billed_by(self) -> str: ...


def of_pools(pools: Iterable[tuple[str, Args]]) -> cost.StackCost:
    """What they cost; a pool of neither sort costs nothing of its own."""
    found = list(pools)
    metered = [
        cost.Metered(name, args.machine_type, args.region, args.billed_by)
        for name, args in found
        if isinstance(args, Billed)
    ]
    return cost.of_stack(demands(found), metered)
