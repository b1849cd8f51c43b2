"""What GKE and its provider refuse in a node pool before anything is created, with their words."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.gke.pools import CLUSTER, L4, POOL, with_config

NONE = {"consumeReservationType": "NO_RESERVATION"}
FLEX: dict[str, Any] = {
    **with_config(flexStart=True, reservationAffinity=NONE, maxRunDuration="3600s"),
    "management": {"autoRepair": False, "autoUpgrade": True},
}


def flex(**changes: Any) -> dict[str, Any]:
    return {**FLEX, "nodeConfig": {**FLEX["nodeConfig"], **changes}}


ACCEPTED: dict[str, dict[str, Any]] = {
    "a pool from zero": POOL,
    "a pool without GPUs": {"cluster": "ci", "location": "us-central1", "name": "system", "nodeCount": 1},
    "limits per zone": {**POOL, "autoscaling": {"minNodeCount": 0, "maxNodeCount": 1}},
    "a T4 on N1": with_config(machineType="n1-standard-4", guestAccelerators=[{**L4, "type": "nvidia-tesla-t4"}]),
    "spot": with_config(spot=True),
    "flex-start": FLEX,
    "flex-start with a placement": {**flex(machineType="a4-highgpu-8g", guestAccelerators=None), "nodeLocations": None,
                                    "placementPolicy": {"type": "COMPACT"}},
    "a reservation": with_config(
        reservationAffinity={
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": ["gpus"],
        }
    ),
    "a surge": {**POOL, "upgradeSettings": {"strategy": "SURGE", "maxSurge": 1, "maxUnavailable": 0}},
    "an autoscaled blue-green upgrade": {
        **POOL,
        "upgradeSettings": {"strategy": "BLUE_GREEN", "blueGreenSettings": {"autoscaledRolloutPolicy": {}}},
    },
    "a GPU that four containers share": with_config(
        guestAccelerators=[
            {**L4, "gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 4}}
        ]
    ),
    "a zone of a zonal cluster": {**POOL, "location": "us-central1-a"},
}  # fmt: skip


@pytest.mark.parametrize("inputs", ACCEPTED.values(), ids=ACCEPTED)
def test_a_pool_that_gke_takes_has_no_problem(google: Google, inputs: dict[str, Any]) -> None:
    assert google.problems(types.NODE_POOL, inputs) == []


REGEXP = "^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
ZONES = "nodeLocations[1]: "
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a long name": ({**POOL, "name": "x" * 41}, f'name: "name" ("{"x" * 41}") doesn\'t match regexp "{REGEXP}"'),
    "a capital": ({**POOL, "name": "L4"}, f'name: "name" ("L4") doesn\'t match regexp "{REGEXP}"'),
    "a long prefix": (
        {**POOL, "name": None, "namePrefix": "x" * 32},
        'namePrefix: "name_prefix" cannot be longer than 31 characters, name is limited to 40',
    ),
    "a name and a prefix": (
        {**POOL, "namePrefix": "l4-"},
        "name: Cannot specify both name and name_prefix for a node_pool",
    ),
    "two sizes": (
        {**POOL, "initialNodeCount": 1, "nodeCount": 2},
        "nodeCount: Cannot set both initial_node_count and node_count on node pool l4",
    ),
    "limits of both kinds": (
        {**POOL, "autoscaling": {"maxNodeCount": 4, "totalMaxNodeCount": 4}},
        "autoscaling.maxNodeCount: maxNodeCount cannot be used with totalMaxNodeCount: limits are per zone or in total",
    ),
    "no maximum": (
        {**POOL, "autoscaling": {"locationPolicy": "ANY"}},
        (
            "autoscaling: Node_pool_autoscaling.max_node_count and node_pool_autoscaling.total_max_node_count "
            "cannot be "
            "both set to zero."
        ),
    ),
    "a minimum above the maximum": (
        {**POOL, "autoscaling": {"totalMinNodeCount": 3, "totalMaxNodeCount": 2}},
        "autoscaling.totalMinNodeCount: totalMinNodeCount 3 is above totalMaxNodeCount 2",
    ),
    "a location policy that does not exist": (
        {**POOL, "autoscaling": {"totalMaxNodeCount": 2, "locationPolicy": "SOME"}},
        'autoscaling.locationPolicy: expected locationPolicy to be one of ["BALANCED" "ANY"], got SOME',
    ),
    "a surge without nodes": (
        {**POOL, "upgradeSettings": {"strategy": "SURGE"}},
        (
            "upgradeSettings.maxSurge: maxSurge and maxUnavailable are both 0, so GKE cannot upgrade a node\n"
            "  hint: set maxSurge to 1 and maxUnavailable to 0"
        ),
    ),
    "a surge in a blue-green upgrade": (
        {**POOL, "upgradeSettings": {"strategy": "BLUE_GREEN", "maxSurge": 1}},
        "upgradeSettings.maxSurge: Surge upgrade settings may not be changed when surge strategy is not enabled",
    ),
    "blue-green settings of a surge": (
        {
            **POOL,
            "upgradeSettings": {
                "strategy": "SURGE",
                "maxSurge": 1,
                "blueGreenSettings": {"nodePoolSoakDuration": "0s"},
            },
        },
        (
            "upgradeSettings.blueGreenSettings: Blue-green upgrade settings may not be changed when blue-green "
            "strategy is "
            "not enabled"
        ),
    ),
    "a GPU on the default machine": (
        with_config(machineType=None),
        (
            "nodeConfig.machineType: Cannot use default machine type (e2-medium) with GPUs; choose a different machine "
            "type."
        ),
    ),
    "a machine type that does not exist": (
        with_config(machineType="g2-standard-9", guestAccelerators=None),
        (
            'nodeConfig.machineType: Invalid machine type "g2-standard-9" in zone "us-central1-a": GCE_NOT_FOUND\n'
            "  hint: did you mean g2-standard-96?"
        ),
    ),
    "a count that is not the machine's": (
        with_config(guestAccelerators=[{**L4, "count": 2}]),
        "nodeConfig.guestAccelerators[0]: g2-standard-8 comes with 1 x nvidia-l4; 2 x nvidia-l4 cannot be added",
    ),
    "a GPU that is not the machine's": (
        with_config(guestAccelerators=[{**L4, "type": "nvidia-tesla-t4"}]),
        "nodeConfig.guestAccelerators[0]: g2-standard-8 comes with 1 x nvidia-l4; 1 x nvidia-tesla-t4 cannot be added",
    ),
    "a count that N1 cannot have": (
        with_config(machineType="n1-standard-4", guestAccelerators=[{**L4, "type": "nvidia-tesla-t4", "count": 3}]),
        "nodeConfig.guestAccelerators[0].count: expected one of 1, 2, 4 GPUs of type nvidia-tesla-t4, got 3",
    ),
    "a zone without the GPU": (
        {**POOL, "nodeLocations": ["us-central1-a", "us-central1-f"]},
        (
            f'{ZONES}Accelerator type "nvidia-l4" does not exist in zone us-central1-f.\n'
            "  hint: zones of the region with it: us-central1-a, us-central1-b, us-central1-c"
        ),
    ),
    "a zone without the machine type": (
        {**with_config(guestAccelerators=None), "nodeLocations": ["us-central1-a", "us-central1-f"]},
        (
            f'{ZONES}Invalid machine type "g2-standard-8" in zone "us-central1-f": GCE_NOT_FOUND\n'
            "  hint: zones of the region with it: us-central1-a, us-central1-b, us-central1-c"
        ),
    ),
    "a driver of another image": (
        with_config(
            imageType="UBUNTU_CONTAINERD",
            guestAccelerators=[{**L4, "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"}}],
        ),
        (
            "nodeConfig.guestAccelerators[0].gpuDriverInstallationConfig.gpuDriverVersion: the driver version "
            "LATEST exists "
            "for Container-Optimized OS only, got UBUNTU_CONTAINERD\n  hint: use DEFAULT"
        ),
    ),
    "a driver that does not exist": (
        with_config(guestAccelerators=[{**L4, "gpuDriverInstallationConfig": {"gpuDriverVersion": "R580"}}]),
        (
            "nodeConfig.guestAccelerators[0].gpuDriverInstallationConfig.gpuDriverVersion: expected "
            "gpuDriverVersion to be "
            'one of ["INSTALLATION_DISABLED" "DEFAULT" "LATEST"'
        ),
    ),
    "too many that share a GPU": (
        with_config(
            guestAccelerators=[
                {**L4, "gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 49}}
            ]
        ),
        (
            "nodeConfig.guestAccelerators[0].gpuSharingConfig.maxSharedClientsPerGpu: expected "
            "max_shared_clients_per_gpu "
            "to be in the range (2 - 48), got 49"
        ),
    ),
    "spot with flex-start": (
        flex(spot=True),
        "nodeConfig.flexStart: flexStart cannot be used with spot or preemptible nodes",
    ),
    "flex-start with any reservation": (
        flex(reservationAffinity=None),
        (
            "nodeConfig.reservationAffinity.consumeReservationType: flexStart requires consumeReservationType "
            "NO_RESERVATION, got nothing"
        ),
    ),
    "flex-start that repairs nodes": (
        {**FLEX, "management": {"autoRepair": True, "autoUpgrade": True}},
        "management.autoRepair: flexStart needs auto_repair set to false",
    ),
    "flex-start in balanced zones": (
        {**FLEX, "autoscaling": {"totalMaxNodeCount": 2, "locationPolicy": "BALANCED"}},
        "autoscaling.locationPolicy: flexStart requires autoscaling with ANY, got BALANCED",
    ),
    "flex-start without autoscaling": (
        {**FLEX, "autoscaling": None},
        "autoscaling.locationPolicy: flexStart requires autoscaling with ANY, got no autoscaling",
    ),
    "flex-start for eight days": (
        flex(maxRunDuration="691200s"),
        "nodeConfig.maxRunDuration: must be at most 604800s (7 days) with flexStart, got 691200s",
    ),
    "flex-start in a compact placement": (
        {**FLEX, "placementPolicy": {"type": "COMPACT"}},
        "placementPolicy.type: COMPACT placement with flexStart exists for A3 Ultra, A4 and H4D machine types only",
    ),
    "a run time that is not a duration": (
        flex(maxRunDuration="1h"),
        "nodeConfig.maxRunDuration: expected maxRunDuration to be a duration in seconds, such as 3.5s, got 1h",
    ),
    "a reservation without a name": (
        with_config(reservationAffinity={"consumeReservationType": "SPECIFIC_RESERVATION", "key": "x"}),
        "nodeConfig.reservationAffinity.values: is required for SPECIFIC_RESERVATION",
    ),
    "spot machines of a reservation": (
        with_config(
            spot=True,
            reservationAffinity={"consumeReservationType": "SPECIFIC_RESERVATION", "key": "x", "values": ["gpus"]},
        ),
        "nodeConfig.reservationAffinity.consumeReservationType: a Spot VM cannot consume a reservation",
    ),
    "queued provisioning with a reservation": (
        {**POOL, "queuedProvisioning": {"enabled": True}},
        (
            "nodeConfig.reservationAffinity.consumeReservationType: Queued_provisioning requires reservation "
            "affinity to be "
            "set to none\n  hint: set consumeReservationType to NO_RESERVATION"
        ),
    ),
    "a taint with a word of Kubernetes": (
        with_config(taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}]),
        (
            "nodeConfig.taints[0].effect: expected effect to be one of "
            '["NO_SCHEDULE" "PREFER_NO_SCHEDULE" "NO_EXECUTE"], got NoSchedule'
        ),
    ),
    "a zone of another region": (
        {**with_config(machineType="e2-standard-4", guestAccelerators=None), "nodeLocations": ["us-east1-b"]},
        "nodeLocations[0]: the zone us-east1-b is not in the region of the cluster, which is in us-central1",
    ),
    "a small disk": (
        with_config(diskSizeGb=9),
        "nodeConfig.diskSizeGb: expected node_config.0.disk_size_gb to be at least (10), got 9",
    ),
}


@pytest.mark.parametrize(("inputs", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_pool_that_gke_refuses_has_one_problem_in_its_words(
    google: Google, inputs: dict[str, Any], problem: str
) -> None:
    [found] = google.problems(types.NODE_POOL, {name: value for name, value in inputs.items() if value is not None})
    assert found.startswith(problem)


CLUSTERS: dict[str, tuple[str, list[str]]] = {
    "a good name": ("ci-1", []),
    "41 characters": ("x" * 41, ["cannot be longer than 40 characters"]),
    "an underscore": ("ci_1", ["can only contain lowercase letters, numbers and hyphens"]),
    "a digit first": ("1ci", ["must start with a letter"]),
    "a hyphen last": ("ci-", ["must end with a number or a letter"]),
}


@pytest.mark.parametrize(("name", "problems"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_name_of_a_cluster(google: Google, name: str, problems: list[str]) -> None:
    found = google.problems(types.CLUSTER, {**CLUSTER, "name": name})
    assert found == [f'name: "name" {problem}' for problem in problems]


def test_a_pool_that_is_nowhere_gets_the_providers_words(google: Google) -> None:
    google.config.pop("region")
    found = google.problems(types.NODE_POOL, {"cluster": "ci"})
    assert found == [
        (
            "location: Unable to determine location: region/zone not configured in resource/provider config\n"
            "  hint: set gcp:region, or location on the resource"
        )
    ]
