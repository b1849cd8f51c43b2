"""An update or a delete of a node pool ends pods, as the upgrade strategy says."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.outputs.container import group_name
from pulumi_sandbox.providers.node_pods import POD, RUNNER
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.gke.pools import POOL, POOL_PATH, cluster, pool, with_config

A, B = (group_name(POOL_PATH, zone) for zone in ("us-central1-a", "us-central1-b"))
UNEVICTABLE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
EVICTABLE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
AUTOSCALED = {
    "strategy": "BLUE_GREEN",
    "blueGreenSettings": {"autoscaledRolloutPolicy": {"waitForDrainDuration": "604800s"}},
}
STANDARD = {
    "strategy": "BLUE_GREEN",
    "blueGreenSettings": {"standardRolloutPolicy": {"batchNodeCount": 1, "batchSoakDuration": "0s"}},
}


@pytest.fixture
def busy(google: Google) -> Google:
    """Pods on two nodes of the pool and on a node of another one; a runner is on the first, and cannot be evicted."""
    cluster(google)
    on: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("runner", f"{A}-0", UNEVICTABLE),
        ("web", f"{B}-1", EVICTABLE),
        ("other", "other-0", {}),
    )
    for name, node, eviction in on:
        meta = {"name": name, "annotations": eviction}
        inputs = {"metadata": meta, "spec": {"nodeName": node}}
        google.world.insert(Record(POD, f"ci/{name}", name, "", inputs, {**inputs, "status": {"phase": "Running"}}))
    google.world.insert(Record(RUNNER, "ci/runner", "runner", "", {}, {"status": {"jobId": "1"}}))
    return google


def left(google: Google) -> list[str]:
    return sorted(row.id for kind in (POD, RUNNER) for row in google.world.find(kind))


def changed(google: Google, made: Resource, inputs: dict[str, Any]) -> list[str]:
    """Return what an update logs."""
    said: list[str] = []
    res = google.resource(
        made.token,
        made.name,
        inputs,
        old_inputs=made.inputs,
        id=made.id,
        outputs=dict(made.outputs),
        log=lambda text, severity="info": said.append(f"{severity}: {text}"),
    )
    google.lifecycle.update(res, Decoded(made.outputs))
    return said


ALL = ["ci/other", "ci/runner", "ci/runner", "ci/web"]
OF_NODES: dict[str, dict[str, Any]] = {
    "machineType": with_config(machineType="g2-standard-12"),
    "diskSizeGb": with_config(diskSizeGb=200),
    "imageType": with_config(imageType="UBUNTU_CONTAINERD"),
    "gcfsConfig": with_config(gcfsConfig={"enabled": True}),
    "workloadMetadataConfig": with_config(workloadMetadataConfig={"mode": "GCE_METADATA"}),
    "version": {**POOL, "version": "1.34"},
}


@pytest.mark.parametrize("name", OF_NODES)
def test_other_machines_disks_images_or_versions_end_every_pod(busy: Google, name: str) -> None:
    assert changed(busy, pool(busy), OF_NODES[name]) == [
        f"warning: GKE replaces the nodes because of {name}; pods that it evicts, after an hour at most: 2"
    ]
    assert left(busy) == ["ci/other"]


@pytest.mark.parametrize(
    "inputs",
    [
        with_config(labels={"gpu-ci-pool": "l4", "team": "ci"}),
        with_config(taints=[]),
        {**POOL, "autoscaling": {**POOL["autoscaling"], "totalMaxNodeCount": 1}},
        {**POOL, "management": {"autoRepair": False, "autoUpgrade": True}},
        {**POOL, "upgradeSettings": AUTOSCALED},
    ],
)
def test_other_labels_taints_and_limits_change_nothing_on_the_nodes(busy: Google, inputs: dict[str, Any]) -> None:
    assert changed(busy, pool(busy), inputs) == []
    assert left(busy) == ALL


def test_an_autoscaled_blue_green_upgrade_waits_for_pods_that_are_not_safe_to_evict(busy: Google) -> None:
    made = pool(busy, {**POOL, "upgradeSettings": AUTOSCALED})
    assert changed(busy, made, {**OF_NODES["machineType"], "upgradeSettings": AUTOSCALED}) == [
        "warning: GKE replaces the nodes because of machineType; pods that it evicts, after an hour at most: 1",
        'info: GKE replaces the nodes because of machineType; pods with safe-to-evict "false" that it waits for: 1',
    ]
    assert left(busy) == ["ci/other", "ci/runner", "ci/runner"]


def test_a_standard_blue_green_upgrade_does_not_wait(busy: Google) -> None:
    made = pool(busy, {**POOL, "upgradeSettings": STANDARD})
    changed(busy, made, {**OF_NODES["machineType"], "upgradeSettings": STANDARD})
    assert left(busy) == ["ci/other"]


def test_the_nodes_of_a_removed_zone_end_with_their_pods(busy: Google) -> None:
    made = pool(busy, {**POOL, "upgradeSettings": AUTOSCALED})
    for zones in (["us-central1-b", "us-central1-a"], ["us-central1-a", "us-central1-b", "us-central1-c"], None):
        assert changed(busy, made, {**POOL, "upgradeSettings": AUTOSCALED, "nodeLocations": zones}) == []
    one = {**POOL, "upgradeSettings": AUTOSCALED, "nodeLocations": ["us-central1-b"]}
    assert changed(busy, made, one) == ["warning: GKE deletes the nodes in us-central1-a; pods that end: 1"]
    assert left(busy) == ["ci/other", "ci/web"]


def test_the_end_of_a_pool_is_the_end_of_its_pods(busy: Google) -> None:
    busy.delete(pool(busy))
    assert left(busy) == ["ci/other"]
