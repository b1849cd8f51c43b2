"""List the groups of a cluster in which the cluster autoscaler starts nodes, on every cloud."""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_sandbox.providers.kubernetes.scheduling import eks_nodes, gke_nodes
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Group
from pulumi_sandbox.world.store import World


def groups(world: World, cluster: str) -> Iterator[Group]:
    """Yield the groups of a cluster. Without a name, it is the only cluster with groups."""
    found = [list(kind.groups(world, cluster)) for kind in (eks_nodes, gke_nodes)]
    if cluster or not all(found):
        for groups_of_kind in found:
            yield from groups_of_kind
