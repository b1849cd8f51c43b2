"""Lookups of GKE clusters: of the world, of sandbox.yaml and of the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.gke import GET_CLUSTER
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.gke.pools import CLUSTER_PATH, POOL, cluster, pool

LISTED = "exists: {gcp: [projects/ci-project/locations/us-central1/clusters/ci]}\n"


def looked_up(google: Google, **arguments: Any) -> dict[str, Any]:
    return google.cloud.invoke(GET_CLUSTER, {"name": "ci", "location": "us-central1", **arguments})[0]


def test_an_example_cluster_has_an_address_of_its_own_and_a_pool_without_gpus(google: Google) -> None:
    found, other = looked_up(google), looked_up(google, name="other")
    assert found["id"] == CLUSTER_PATH
    assert found["endpoint"].startswith("34.")
    assert found["endpoint"] != other["endpoint"]
    assert found["masterVersion"] == "1.34.1-gke.3720000"
    assert found["nodeLocations"] == ["us-central1-a", "us-central1-b", "us-central1-c"]
    assert [each["name"] for each in found["nodePools"]] == ["default-pool"]


def test_a_pool_may_join_a_cluster_that_the_program_has_looked_up(google: Google) -> None:
    with pytest.raises(Refused, match="was not found"):
        pool(google)
    looked_up(google)
    made = pool(google, {name: value for name, value in POOL.items() if name != "nodeLocations"})
    assert made.outputs["nodeLocations"] == ["us-central1-a", "us-central1-b", "us-central1-c"]


def test_a_cluster_of_the_world_answers_with_its_own_address_version_and_zones(google: Google) -> None:
    made = cluster(google, minMasterVersion="1.33.4-gke.1000000", nodeLocations=["us-central1-f"])
    found = looked_up(google)
    assert (found["masterVersion"], found["nodeLocations"]) == ("1.33.4-gke.1000000", ["us-central1-f"])
    assert found["endpoint"] == made.outputs["endpoint"]
    assert made.outputs["masterAuth"]["clusterCaCertificate"]


@pytest.mark.parametrize(("version", "enabled"), [("1.34.1-gke.3720000", True), ("1.34.1-gke.1000000", False)])
def test_new_versions_have_nodelocal_dnscache(google: Google, tmp_path: Path, version: str, enabled: bool) -> None:
    def cache(found: dict[str, Any]) -> bool:
        return bool(found["addonsConfigs"][0]["dnsCacheConfigs"][0]["enabled"])

    cluster(google, minMasterVersion=version)
    assert cache(looked_up(google)) is enabled
    example = Google(tmp_path / "other", settings=f"values: {{gcp: {{gkeVersion: {version}}}}}\n")
    assert cache(looked_up(example)) is enabled


def test_a_list_of_clusters_leaves_all_others_missing(tmp_path: Path) -> None:
    google = Google(tmp_path, settings=LISTED)
    assert looked_up(google)["id"] == CLUSTER_PATH
    assert pool(google).outputs["version"] == "1.34.1-gke.3720000"
    with pytest.raises(Refused) as refused:
        looked_up(google, name="other")
    path = "projects/ci-project/locations/us-central1/clusters/other"
    error, _, hint = str(refused.value).partition("\n")
    assert error == f"{path} not found"
    assert hint.endswith(f"list it in sandbox.yaml: exists: {{gcp: [{path}]}}")
