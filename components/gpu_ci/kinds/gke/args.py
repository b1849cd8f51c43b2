"""The arguments of the kind gke-runners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...gcp.gke_nodes.args import GkeGpuNodePoolArgs
from ...kubernetes.name_types import Toleration
from ...kubernetes.pool.args import RunnerPoolArgs
from ...kubernetes.pool.rules import Node
from ...machines.rules import machine_of
from . import capacity

# GKE mounts the driver's libraries here, and no program adds the folder to the path of the loader
# (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus, "About the CUDA libraries").
_ENVIRONMENT = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
# The taint that GKE adds to nodes with Arm CPUs (docs.cloud.google.com/kubernetes-engine/docs/how-to/
# prepare-arm-workloads-for-deployment).
_ARM = Toleration(key="kubernetes.io/arch", value="arm64")


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

    @property
    def pod_environment(self) -> Mapping[str, str]:
        return _ENVIRONMENT

    @property
    def pod_tolerations(self) -> Sequence[Toleration]:
        return [_ARM] if self.machine.architecture == "arm64" else []
