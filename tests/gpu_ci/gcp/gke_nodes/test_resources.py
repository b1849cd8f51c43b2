"""The resources of a node pool, with their exact inputs."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_catalog import cost, quota

from tests.gpu_ci.gcp.gke_nodes.node_pools import (
    FLEX,
    GKE_WIRING,
    OLD_GKE,
    Late,
    args,
    nodes,
    pool,
)

BLUE_GREEN = {
    "strategy": "BLUE_GREEN",
    "blueGreenSettings": {"autoscaledRolloutPolicy": {"waitForDrainDuration": "432000s"}},
}


def config(**changes: Any) -> dict[str, Any]:
    """The configuration of the nodes."""
    found: dict[str, Any] = nodes(**changes)["nodeConfig"]
    return found


def test_a_cluster_without_workload_identity_gets_the_metadata_of_compute_engine() -> None:
    assert config(workload_identity=False)["workloadMetadataConfig"] == {"mode": "GCE_METADATA"}
    assert config(workload_identity=Late(False))["workloadMetadataConfig"] == {"mode": "GCE_METADATA"}


def test_the_subnetwork_and_the_name_of_the_pool_can_differ_from_the_default() -> None:
    subnetwork = "projects/example-ci/regions/us-central1/subnetworks/gpu"
    assert nodes(subnetwork=subnetwork)["networkConfig"] == {"enablePrivateNodes": True, "subnetwork": subnetwork}
    link = f"https://www.googleapis.com/compute/v1/{subnetwork}"
    assert nodes(subnetwork=link)["networkConfig"] == nodes(subnetwork=Late(link))["networkConfig"]
    assert nodes(subnetwork=link)["networkConfig"]["subnetwork"] == subnetwork
    assert config(pool="smoke")["labels"]["gpu-ci-pool"] == config(pool="smoke")["resourceLabels"]["gpu-ci-pool"]
    assert config(pool="smoke")["labels"]["gpu-ci-pool"] == "smoke"


def test_the_longest_name_leaves_room_for_the_suffix_of_pulumi() -> None:
    name = "a" * 40
    found = pool(name).one(":NodePool")
    assert len(found.name) == 32
    assert found.inputs["nodeConfig"]["labels"]["gpu-ci-pool"] == name


def test_wiring_that_is_known_later_gives_the_same_node_pool() -> None:
    late = {key: Late(value) for key, value in GKE_WIRING.items() if key != "labels"}
    assert nodes(**late) == nodes()


def test_a_version_that_is_unknown_in_a_preview_is_left_for_the_update() -> None:
    found = pool(preview=True, control_plane_version=Late(None, known=False)).one(":NodePool").inputs
    assert found["nodeConfig"]["machineType"] == "g2-standard-8"
    assert found["upgradeSettings"] != BLUE_GREEN


def test_the_old_driver_gets_a_warning_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warnings.append(text))
    pool(name="warned", **OLD_GKE)
    pool(name="latest", driver="LATEST", **OLD_GKE)
    pool(name="ubuntu", image_type="UBUNTU_CONTAINERD")
    assert warnings == [
        "driver: GKE installs driver 535, which NVIDIA no longer supports; hint: driver: LATEST",
        (
            "driver: GKE installs driver 535, which NVIDIA no longer supports; hint: driver: LATEST and imageType: "
            "COS_CONTAINERD"
        ),
    ]


def test_cost_and_quota_are_those_of_the_machines() -> None:
    demand = args(max=3, local_ssd_count=1).demand("l4")
    assert (demand.machine.machine_type, demand.max_machines, demand.local_ssd_gib) == ("g2-standard-8", 3, 375)
    assert (demand.boot_disk, demand.boot_disk_gib, demand.most_machines) == ("pd-balanced", 100, 3)
    assert quota.needs([demand])["us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS"].amount == 3
    assert cost.of_pool(demand).demand == demand


def test_flex_start_nodes_need_preemptible_quota() -> None:
    assert args(**FLEX).demand("l4").is_short_lived
