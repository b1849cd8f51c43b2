"""The pods on the nodes of a node group or node pool. A node has the name of its group and a number."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.world.store import Record, World

POD, RUNNER = "kubernetes:core/v1:Pod", "kubernetes:actions.github.com/v1alpha1:EphemeralRunner"


def node_number(pod: Record, group: str) -> int | None:
    """Return the number of the pod's node, or None if the node is not in this group."""
    name, _, number = str(table(pod.inputs.get("spec")).get("nodeName") or "").rpartition("-")
    return int(number) if name == group and number.isdigit() else None


def is_on(pod: Record, groups: Collection[str]) -> bool:
    """Return True if the pod is on a node of one of the groups."""
    return any(node_number(pod, group) is not None for group in groups)


def end_pods(world: World, pods: Iterable[Record], note: str) -> None:
    """Delete pods whose nodes have ended. The jobs of runners among them are lost."""
    for row in pods:
        for kind in (POD, RUNNER):
            world.delete(kind, row.id, note, cluster=row.cluster)
