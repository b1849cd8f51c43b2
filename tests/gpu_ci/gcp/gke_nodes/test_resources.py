"""The resources of a node pool, with their exact inputs."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_catalog import cost, quota

from tests.gpu_ci.gcp.gke_nodes.node_pools import (
    B200,
    DISK_IMAGE,
    FLEX,
    GKE_WIRING,
    OLD_GKE,
    T4,
    ZONES,
    Late,
    args,
    nodes,
    pool,
)

SURGE = {"strategy": "SURGE", "maxSurge": 1, "maxUnavailable": 0}
BLUE_GREEN = {
    "strategy": "BLUE_GREEN",
    "blueGreenSettings": {"autoscaledRolloutPolicy": {"waitForDrainDuration": "432000s"}},
}


def config(**changes: Any) -> dict[str, Any]:
    """The configuration of the nodes."""
    found: dict[str, Any] = nodes(**changes)["nodeConfig"]
    return found


def test_a_pool_is_a_service_account_its_role_and_a_node_pool() -> None:
    assert [(row.name, row.type) for row in pool().rows] == [
        ("l4", "gpu-ci:gcp:GkeGpuNodePool"),
        ("l4-account", "gcp:serviceaccount/account:Account"),
        ("l4-node-role", "gcp:projects/iAMMember:IAMMember"),
        ("l4-nodes", "gcp:container/nodePool:NodePool"),
    ]


def test_the_node_pool_has_exactly_these_inputs() -> None:
    assert nodes() == {
        "project": "example-ci",
        "cluster": "ci",
        "location": "us-central1",
        "nodeLocations": ZONES,
        "initialNodeCount": 0,
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 4, "locationPolicy": "ANY"},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "upgradeSettings": BLUE_GREEN,
        "networkConfig": {"enablePrivateNodes": True},
        "nodeConfig": {
            "machineType": "g2-standard-8",
            "imageType": "COS_CONTAINERD",
            "diskSizeGb": 100,
            "diskType": "pd-balanced",
            "guestAccelerators": [
                {
                    "type": "nvidia-l4",
                    "count": 1,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
                }
            ],
            "spot": True,
            "labels": {
                "gpu-ci-pool": "l4",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.deploy.operands": "false",
            },
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            "resourceLabels": {"gpu-ci-pool": "l4", "team": "ml"},
            "serviceAccount": "gpu-l4@p.iam.gserviceaccount.com",
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "shieldedInstanceConfig": {"enableSecureBoot": True, "enableIntegrityMonitoring": True},
            "gcfsConfig": {"enabled": False},
        },
    }


def test_the_service_account_has_the_one_role_that_gke_requires() -> None:
    (grant,) = pool().of(":IAMMember")
    assert grant.inputs == {
        "member": "serviceAccount:gpu-l4@p.iam.gserviceaccount.com",
        "project": "example-ci",
        "role": "roles/container.defaultNodeServiceAccount",
    }
    assert pool().one(":Account").inputs["accountId"] == "gke-l4-stack"


def test_image_streaming_adds_the_role_of_its_api_and_nothing_else() -> None:
    roles = [row.inputs["role"] for row in pool(image_streaming=True).of(":IAMMember")]
    assert roles == ["roles/container.defaultNodeServiceAccount", "roles/serviceusage.serviceUsageConsumer"]
    assert config(image_streaming=True) == {**config(), "gcfsConfig": {"enabled": True}}


def test_nodes_may_read_each_repository_of_images_once() -> None:
    path, other = (f"projects/{project}/locations/eu/repositories/ci" for project in ("acme-ci", "example-images"))
    found = pool(image_repositories=[path, other, path])
    grants = found.of(":RepositoryIamMember")
    assert [grant.inputs for grant in grants] == [
        {
            "project": project,
            "location": "eu",
            "repository": "ci",
            "role": "roles/artifactregistry.reader",
            "member": "serviceAccount:gpu-l4@p.iam.gserviceaccount.com",
        }
        for project in ("acme-ci", "example-images")
    ]
    assert {row.urn for row in grants} <= set(found.one(":NodePool").request.dependencies)
    assert pool().of(":RepositoryIamMember") == []


def test_nodes_wait_for_the_roles_of_their_service_account() -> None:
    found = pool(image_streaming=True)
    assert {row.urn for row in found.of(":IAMMember")} <= set(found.one(":NodePool").request.dependencies)


def test_the_initial_number_of_nodes_never_replaces_the_pool() -> None:
    assert list(pool().one(":NodePool").request.ignoreChanges) == ["initialNodeCount"]


def test_flex_start_nodes_have_a_time_limit_and_neither_repair_nor_upgrade_settings() -> None:
    found = nodes(**FLEX)
    assert "upgradeSettings" not in found
    assert found["management"] == {"autoRepair": False, "autoUpgrade": True}
    plain = {key: value for key, value in config().items() if key != "spot"}
    assert found["nodeConfig"] == {
        **plain,
        "flexStart": True,
        "maxRunDuration": "14400s",
        "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
    }


def test_nodes_of_every_market_can_have_a_time_limit() -> None:
    assert config(max_run_duration_sec=3600) == {**config(), "maxRunDuration": "3600s"}


def test_standard_nodes_are_neither_spot_nor_flex_start() -> None:
    assert config(market="standard") == {key: value for key, value in config().items() if key != "spot"}


def test_a_reservation_is_the_only_capacity_of_its_pool() -> None:
    path = "projects/other/reservations/ours"
    for market, machine in (("standard", {}), ("reservation", {"machine_type": "a3-megagpu-8g"})):
        assert config(market=market, reservation=path, **machine)["reservationAffinity"] == {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [path],
        }


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({}, BLUE_GREEN),
        ({"control_plane_version": "1.34.0-gke.2201000"}, BLUE_GREEN),
        ({"control_plane_version": "1.34.0-gke.2200999"}, SURGE),
        ({"control_plane_version": "1.34.0-gke.990000"}, SURGE),
        (OLD_GKE, SURGE),
        ({"upgrade_strategy": "SURGE"}, SURGE),
        ({"upgrade_strategy": "BLUE_GREEN"}, BLUE_GREEN),
    ],
    ids=["new", "first", "before", "fewer-digits", "old", "surge", "blue-green"],
)
def test_an_upgrade_waits_for_jobs_where_gke_can_do_that(changes: dict[str, Any], settings: dict[str, Any]) -> None:
    assert nodes(**changes)["upgradeSettings"] == settings


def test_gpus_are_attached_to_n1_machines() -> None:
    (gpus,) = config(machine_type="n1-standard-16", guest_accelerator={"type": "nvidia-tesla-t4", "count": 2})[
        "guestAccelerators"
    ]
    assert (gpus["type"], gpus["count"]) == ("nvidia-tesla-t4", 2)
    assert config(**T4)["machineType"] == "n1-standard-8"


def test_eight_gpus_with_their_own_disk_and_network_interface() -> None:
    found = config(**B200, driver="LATEST")
    assert found["guestAccelerators"] == [
        {"type": "nvidia-b200", "count": 8, "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"}}
    ]
    assert (found["diskType"], found["gvnic"]) == ("hyperdisk-balanced", {"enabled": True})


def test_a_machine_without_google_virtual_nic_gets_no_setting_for_it() -> None:
    machine = {"machine_type": "a4x-maxgpu-4g-metal", "zones": ["us-central1-b"], "market": "reservation"}
    assert "gvnic" not in config(**machine, reservation="ours")


def test_local_ssds_and_a_disk_of_images_are_given_to_the_nodes() -> None:
    found = config(local_ssd_count=1, image_streaming=True, secondary_boot_disk=DISK_IMAGE)
    assert found["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 1}
    assert found["secondaryBootDisks"] == [{"diskImage": DISK_IMAGE, "mode": "CONTAINER_IMAGE_CACHE"}]


def test_ubuntu_starts_without_secure_boot() -> None:
    assert config(image_type="UBUNTU_CONTAINERD")["shieldedInstanceConfig"] == {
        "enableSecureBoot": False,
        "enableIntegrityMonitoring": True,
    }


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


def test_the_generation_names_what_the_smoke_check_depends_on() -> None:
    found = pool(driver="LATEST")
    assert found.outputs[found.rows[0].urn] == {
        "nodePoolName": "pool-nodes-1",
        "serviceAccountEmail": "gpu-l4@p.iam.gserviceaccount.com",
        "generation": "l4-nodes-id g2-standard-8 COS_CONTAINERD LATEST 1.34.1-gke.3720000",
    }


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
