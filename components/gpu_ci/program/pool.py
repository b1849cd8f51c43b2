"""The classes Pool and Pipeline: entries of a stack file, each with all arguments for its component."""

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


@dataclass(frozen=True)
class Pipeline(Pool):
    """One image pipeline. Like a pool, it is a component of a kind, with arguments that the networks complete."""
