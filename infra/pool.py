"""A pool of a stack file, ready to be built."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from gpu_ci.args import Args
from gpu_ci.component import Component


@dataclass(frozen=True)
class Pool:
    """One pool, ready to be built: its kind's component and checked arguments, wired to the site."""

    name: str
    kind: str
    component: type[Component]
    args: Args
    options: pulumi.ResourceOptions | None = None
