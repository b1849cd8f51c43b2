"""The effect of a changed argument on `pulumi up`: no change, an update in place, or a replacement.

REPLACED lists what Google's provider cannot change in place
(GoogleCloudPlatform/magic-modules@d57784406, mmv1/third_party/terraform/services/container/: ForceNew in
node_config.go.tmpl and resource_container_node_pool.go.tmpl).
"""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePoolArgs

from tests.gpu_ci.gcp.gke_nodes.node_pools import DISK_IMAGE, FLEX, OLD_GKE, T4, pool

# Inputs of the node pool, and of its nodeConfig.
REPLACED = {
    *("name", "project", "cluster", "location", "initialNodeCount", "maxPodsPerNode", "placementPolicy"),
    *("queuedProvisioning", "networkConfig.subnetwork", "networkConfig.podRange"),
    *(
        f"nodeConfig.{key}"
        for key in (
            *("guestAccelerators", "spot", "preemptible", "flexStart", "maxRunDuration", "reservationAffinity"),
            *("serviceAccount", "oauthScopes", "metadata", "minCpuPlatform", "shieldedInstanceConfig"),
            *("localSsdCount", "ephemeralStorageConfig", "ephemeralStorageLocalSsdConfig", "localNvmeSsdBlockConfig"),
            "secondaryBootDisks",
        )
    ),
}
NODES = "gcp:container/nodePool:NodePool"
NESTED = ("nodeConfig", "networkConfig")
STANDARD = {"market": "standard"}
STREAMING = {"image_streaming": True}

# What is there before, what changes, and what happens to the node pool.
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"project": "other-ci"}, "replace"),
    ({}, {"cluster_name": "other"}, "replace"),
    ({}, {"location": "us-central1-a"}, "replace"),
    (OLD_GKE, {"control_plane_version": "1.34.1-gke.3720000"}, "update"),
    ({}, {"autopilot": False}, ""),
    ({}, {"workload_identity": False}, "update"),
    ({}, {"subnetwork": "projects/example-ci/regions/us-central1/subnetworks/gpu"}, "replace"),
    ({}, {"labels": {"team": "web"}}, "update"),
    ({}, {"pool": "other"}, "update"),
    ({}, {"unproven": True}, "update"),
    ({}, {"machine_type": "g2-standard-16"}, "update"),
    ({}, {"machine_type": "g2-standard-24"}, "replace"),  # two GPUs
    (T4, {"guest_accelerator": {"type": "nvidia-tesla-t4", "count": 2}}, "replace"),
    ({}, {"zones": ["us-central1-a"]}, "update"),
    ({}, {"market": "standard"}, "replace"),
    (STANDARD, {"reservation": "ours"}, "replace"),
    (FLEX, {"max_run_duration_sec": 7_200}, "replace"),
    ({}, {"max": 5}, "update"),
    ({}, {"image_type": "UBUNTU_CONTAINERD"}, "replace"),  # without secure boot
    ({}, {"driver": "LATEST"}, "replace"),
    ({}, {"torch": "2.14.0+cu126"}, ""),
    ({}, {"disk_gib": 200}, "update"),
    ({}, {"disk_type": "pd-ssd"}, "update"),
    ({}, {"local_ssd_count": 1}, "replace"),
    ({}, {"image_streaming": True}, "update"),
    ({}, {"image_repositories": ["projects/acme-ci/locations/eu/repositories/ci"]}, ""),
    (STREAMING, {"secondary_boot_disk": DISK_IMAGE}, "replace"),
    ({}, {"upgrade_strategy": "SURGE"}, "update"),
]


def happens(before: dict[str, Any], change: dict[str, Any]) -> str:
    """Return the change of the node pool."""
    was, now = (pool(**each).one(NODES) for each in (before, {**before, **change}))
    changed = _changed(was.inputs, now.inputs) - set(now.request.ignoreChanges)
    return ("replace" if changed & REPLACED else "update") if changed else ""


def _changed(was: dict[str, Any], now: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key in {**was, **now}:
        old, new = was.get(key), now.get(key)
        if key in NESTED and old and new:
            found |= _changed(old, new, f"{key}.")
        elif old != new:
            found.add(f"{prefix}{key}")
    return found


@pytest.mark.parametrize(("before", "change", "expected"), CHANGES, ids=lambda value: str(value))
def test_a_changed_argument_has_the_documented_effect(
    before: dict[str, Any], change: dict[str, Any], expected: str
) -> None:
    assert happens(before, change) == expected


def test_every_argument_is_in_the_table() -> None:
    fields = {field for _, change, _ in CHANGES for field in change}
    assert fields == set(GkeGpuNodePoolArgs.model_fields) - {"transform"}


def test_a_change_of_the_node_image_the_driver_or_the_machine_is_another_generation() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"driver": "LATEST"},
        {"image_type": "UBUNTU_CONTAINERD"},
        {"machine_type": "g2-standard-16"},
    )
    found = [pool(**change) for change in changes]
    assert len({each.outputs[each.rows[0].urn]["generation"] for each in found}) == 4
