"""Node pools of GKE: what is created, what other resources make GKE refuse, and planted faults."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.node_pods import POD
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.gke.pools import (
    CLUSTER_PATH,
    L4,
    POOL,
    POOL_PATH,
    TAINT,
    cluster,
    pool,
    with_config,
)

UNTAINTED = with_config(taints=None)


def refused(google: Google, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as error:
        pool(google, inputs)
    return str(error.value)


def changed(google: Google, made: Resource, inputs: dict[str, Any]) -> Resource:
    """Return the pool after an update."""
    res = google.resource(made.token, made.name, inputs, old_inputs=made.inputs, id=made.id, outputs=dict(made.outputs))
    google.lifecycle.update(res, Decoded(made.outputs))
    return res


def test_the_outputs_of_a_pool_are_those_that_the_provider_reads_back(google: Google) -> None:
    cluster(google)
    made = pool(google)
    assert made.id == POOL_PATH
    outputs = made.outputs
    zones = "https://www.googleapis.com/compute/v1/projects/ci-project/zones/us-central1"
    first, second = outputs["instanceGroupUrls"]
    assert first.startswith(f"{zones}-a/instanceGroupManagers/gke-ci-l4-")
    assert second.startswith(f"{zones}-b/instanceGroupManagers/gke-ci-l4-")
    assert outputs["managedInstanceGroupUrls"] == [
        url.replace("instanceGroupManagers", "instanceGroups") for url in (first, second)
    ]
    expected = {
        "initialNodeCount": 0,
        "location": "us-central1",
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maxPodsPerNode": 110,
        "nodeCount": 0,
        "nodeLocations": ["us-central1-a", "us-central1-b"],
        "operation": "",
        "upgradeSettings": {"strategy": "SURGE", "maxSurge": 1, "maxUnavailable": 0},
        "version": "1.34.1-gke.3720000",
    }
    assert {name: outputs[name] for name in expected} == expected
    config = outputs["nodeConfig"]
    assert (config["diskSizeGb"], config["diskType"], config["serviceAccount"]) == (100, "pd-balanced", "default")
    assert config["oauthScopes"][0] == "https://www.googleapis.com/auth/devstorage.read_only"
    assert len(config["oauthScopes"]) == 6
    assert config["guestAccelerators"] == [L4]
    assert config["effectiveTaints"] == [TAINT]


def test_gke_installs_a_driver_that_a_pool_does_not_name_since_1_30_1(google: Google) -> None:
    bare = with_config(guestAccelerators=[{"type": "nvidia-l4", "count": 1}])
    cluster(google, minMasterVersion="1.30.1-gke.1156000")
    [row] = pool(google, bare).outputs["nodeConfig"]["guestAccelerators"]
    assert row["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "DEFAULT"}


# -- GKE's own GPU taint ----------------------------------------------------------------------------------------------


def test_gke_taints_a_gpu_pool_of_a_cluster_that_has_another_pool(google: Google) -> None:
    cluster(google)
    made = pool(google, UNTAINTED)
    assert "taints" not in made.outputs["nodeConfig"]
    assert made.outputs["nodeConfig"]["effectiveTaints"] == [TAINT]


def test_an_update_keeps_the_taint_that_gke_added_and_changes_the_declared_ones(google: Google) -> None:
    cluster(google)
    mine = {"key": "team", "value": "ci", "effect": "NO_SCHEDULE"}
    made = pool(google, with_config(taints=[mine]))
    assert made.outputs["nodeConfig"]["effectiveTaints"] == [mine, TAINT]
    after = changed(google, made, UNTAINTED)
    assert after.outputs["nodeConfig"]["effectiveTaints"] == [TAINT]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_pool_needs_its_cluster(google: Google) -> None:
    assert refused(google, POOL) == (
        "error creating NodePool: googleapi: Error 404: Not found: projects/ci-project/locations/us-central1/clusters/"
        "ci., notFound\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: "
        f"[{CLUSTER_PATH}]}}"
    )
    zonal = {**POOL, "location": "us-central1-a"}
    assert "Not found: projects/ci-project/zones/us-central1-a/clusters/ci., notFound" in refused(google, zonal)


def test_a_pool_needs_its_account(google: Google) -> None:
    cluster(google)
    email = "gke-nodes@ci-project.iam.gserviceaccount.com"
    inputs = with_config(serviceAccount=email)
    assert refused(google, inputs).startswith(
        f'error creating NodePool: googleapi: Error 400: Service account "{email}" does not exist., badRequest\n'
    )
    google.make(types.ACCOUNT, "nodes", {"accountId": "gke-nodes"})
    assert pool(google, inputs).outputs["nodeConfig"]["serviceAccount"] == email


# -- planted faults ---------------------------------------------------------------------------------------------------

RUNNING = {**POOL, "initialNodeCount": 1}


def test_a_quota_refuses_the_first_nodes(google: Google) -> None:
    cluster(google)
    google.world.add_fault(Fault("quota"))
    assert refused(google, RUNNING) == (
        "error creating NodePool: googleapi: Error 403: Insufficient regional quota to satisfy request: resource "
        "\"NVIDIA_L4_GPUS\": request requires '2.0' and is short '2.0'. project has a quota of '0.0' with '0.0' "
        "available. View and manage quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project="
        "ci-project., forbidden"
    )
    assert pool(google, RUNNING).outputs["nodeCount"] == 1


def test_a_fault_does_not_stop_the_update_of_a_pool(google: Google) -> None:
    cluster(google)
    made = pool(google, RUNNING)
    google.world.add_fault(Fault("quota", times=0))
    limits = {**POOL["autoscaling"], "totalMaxNodeCount": 3}
    assert changed(google, made, {**RUNNING, "autoscaling": limits}).outputs["nodeCount"] == 1


def test_a_stockout_of_a_zone_ends_the_create_with_nodes_in_that_zone(google: Google) -> None:
    cluster(google)
    google.world.add_fault(Fault("stockout", zone="us-central1-c"))
    pool(google, RUNNING)
    google.world.add_fault(Fault("stockout", zone="us-central1-b"))
    error = refused(google, {**RUNNING, "name": "other"})
    assert error.startswith(
        "Error waiting for creating GKE NodePool: Google Compute Engine: Not all instances running in IGM after "
    )
    assert "Current errors: [GCE_STOCKOUT]: Instance 'gke-ci-other-" in error
    assert "The zone 'projects/ci-project/zones/us-central1-b' does not have enough resources" in error


def test_a_pool_without_nodes_needs_neither_quota_nor_stock(google: Google) -> None:
    cluster(google)
    google.world.add_fault(Fault("quota", times=0))
    google.world.add_fault(Fault("stockout", times=0))
    assert pool(google).outputs["nodeCount"] == 0


def test_the_end_of_a_pool_is_the_end_of_its_pods(google: Google) -> None:
    cluster(google)
    made = pool(google)
    node = made.outputs["instanceGroupUrls"][0].rpartition("/")[2].removesuffix("-grp")
    for name, host in (("here", f"{node}-0"), ("elsewhere", "gke-ci-other-0")):
        google.world.insert(Record(POD, name, name, "", {"spec": {"nodeName": host}}, {}))
    google.delete(made)
    assert [row.name for row in google.world.find(POD)] == ["elsewhere"]
