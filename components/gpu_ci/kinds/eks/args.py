"""The arguments of the kind eks-runners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from ... import versions
from ...args import Input
from ...aws.nodes.args import GpuNodeGroupArgs
from ...aws.nodes.rules import machines_of
from ...kubernetes.pool.args import RunnerPoolArgs
from ...kubernetes.pool.rules import Node
from .capacity import node


class EksRunnerPoolArgs(RunnerPoolArgs, GpuNodeGroupArgs):
    """The arguments of a runner pool on EKS: its nodes, and the software that runs on them."""

    WIRING: ClassVar[frozenset[str]] = (
        RunnerPoolArgs.WIRING | (GpuNodeGroupArgs.WIRING - {"cluster_name"}) | {"device_plugin"}
    )

    device_plugin: Input[str] = Field(
        default=versions.DEVICE_PLUGIN_CHART,
        description="the device plugin's version and settings; after a change, the check runs again",
    )

    @classmethod
    def node_of(cls, fields: Mapping[str, Any]) -> Node | None:
        machines = machines_of(fields)
        return node(machines[0], fields) if machines else None
