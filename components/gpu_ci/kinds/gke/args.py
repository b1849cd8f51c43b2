"""The arguments of the kind gke-runners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...gcp.gke_nodes.args import GkeGpuNodePoolArgs
from ...gcp.machine.rules import machine_of
from ...kubernetes.pool.args import RunnerPoolArgs
from ...kubernetes.pool.rules import Node
from . import capacity


class GkeRunnerPoolArgs(RunnerPoolArgs, GkeGpuNodePoolArgs):
    """The arguments of a runner pool on GKE: its nodes, and the software that runs on them."""

    # The subnetwork is a field of the stack file, too: by default, the nodes are in the subnetwork of the cluster.
    WIRING: ClassVar[frozenset[str]] = RunnerPoolArgs.WIRING | (
        GkeGpuNodePoolArgs.WIRING - {"cluster_name", "subnetwork"}
    )

    @classmethod
    def node_of(cls, fields: Mapping[str, Any]) -> Node | None:
        machine = machine_of(fields)
        return capacity.node(machine, fields.get("disk_gib"), fields.get("local_ssd_count")) if machine else None
