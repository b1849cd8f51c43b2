"""Node pools of GKE: what is created, and what other resources make GKE refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded

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
    expected = {
        "initialNodeCount": 0,
        "location": "us-central1",
        "nodeCount": 0,
        "nodeLocations": ["us-central1-a", "us-central1-b"],
        "version": "1.34.1-gke.3720000",
    }
    assert {name: outputs[name] for name in expected} == expected
    config = outputs["nodeConfig"]
    assert (config["diskSizeGb"], config["machineType"]) == (100, "g2-standard-8")
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


def test_a_pool_needs_its_cluster_and_its_account(google: Google) -> None:
    assert f"The resource '{CLUSTER_PATH}' was not found" in refused(google, POOL)
    cluster(google)
    email = "gke-nodes@ci-project.iam.gserviceaccount.com"
    inputs = with_config(serviceAccount=email)
    assert f"The resource 'projects/ci-project/serviceAccounts/{email}' was not found" in refused(google, inputs)
    google.make(types.ACCOUNT, "nodes", {"accountId": "gke-nodes"})
    assert pool(google, inputs).outputs["nodeConfig"]["serviceAccount"] == email
