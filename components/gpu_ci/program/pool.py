"""The class Pool: a pool of a stack file, with all arguments for its component."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpu_ci.args import Args
from gpu_ci.component import Component


@dataclass(frozen=True)
class Pool:
    """One pool: the component of its kind, and the validated arguments."""

    name: str
    kind: str
    component: type[Component]
    args: Args
    options: pulumi.ResourceOptions | None = None
