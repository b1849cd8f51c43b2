"""The effect of an update or a delete of a node pool on its nodes.

Source: docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies. A change of the machines, of
their disks or of their image replaces all nodes by the pool's upgrade strategy. Labels and taints change on the nodes
that run. The nodes of a removed zone are deleted (discovery document container v1, UpdateNodePoolRequest.locations). A
pod with the annotation `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"` may end by itself, if the
strategy is an autoscaled blue-green upgrade. Any other strategy evicts it after an hour at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from pulumi_sandbox.providers.gcp.outputs.container import group_name
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.node_pods import POD, end_pods, is_on
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

# The fields of nodeConfig whose change replaces the nodes.
OF_NODES = ("diskSizeGb", "diskType", "gcfsConfig", "gvnic", "imageType", "machineType", "workloadMetadataConfig")
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def updated(world: World, res: Resource) -> None:
    """Apply an update to the nodes and their pods."""
    _without_zones(world, res)
    before, after = (table((inputs or {}).get("nodeConfig")) for inputs in (res.old_inputs, res.inputs))
    changed = [name for name in OF_NODES if before.get(name) != after.get(name)]
    changed += ["version"] if (res.old_inputs or {}).get("version") != res.inputs.get("version") else []
    if not changed:
        return
    pods = _pods(world, res.id, rows(res.outputs.get("nodeLocations")))
    kept = [pod for pod in pods if _may_finish(res) and _is_kept(pod)]
    ended = [pod for pod in pods if pod not in kept]
    text = f"GKE replaces the nodes because of {', '.join(changed)}"
    if ended:
        res.log(f"{text}; pods that it evicts, after an hour at most: {len(ended)}", "warning")
    if kept:
        res.log(f'{text}; pods with safe-to-evict "false" that it waits for: {len(kept)}', "info")
    end_pods(world, ended, f"{res.name}: the node was replaced")


def deleted(world: World, res: Resource) -> None:
    pods = _pods(world, res.id, rows(res.outputs.get("nodeLocations")))
    end_pods(world, pods, f"{res.name}: the node pool was deleted")


def _without_zones(world: World, res: Resource) -> None:
    before, after = ({*rows((inputs or {}).get("nodeLocations"))} for inputs in (res.old_inputs, res.inputs))
    removed = sorted(before - after) if after else []
    if pods := _pods(world, res.id, removed):
        res.log(f"GKE deletes the nodes in {', '.join(removed)}; pods that end: {len(pods)}", "warning")
        end_pods(world, pods, f"{res.name}: the node was deleted")


def _may_finish(res: Resource) -> bool:
    settings = table(res.outputs.get("upgradeSettings"))
    blue_green = table(settings.get("blueGreenSettings"))
    return settings.get("strategy") == "BLUE_GREEN" and "autoscaledRolloutPolicy" in blue_green


def _is_kept(pod: Record) -> bool:
    meta = table(pod.inputs.get("metadata"))
    return table(meta.get("annotations")).get(SAFE_TO_EVICT) == "false"


def _pods(world: World, path: str, zones: Iterable[object]) -> list[Record]:
    groups = {group_name(path, str(zone)) for zone in zones}
    return [pod for pod in world.find(POD) if is_on(pod, groups)]
