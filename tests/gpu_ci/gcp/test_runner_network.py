"""The resources of a runner network, and its invalid arguments."""

from __future__ import annotations

from typing import Any

import pulumi_gcp as gcp
import pytest
from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs
from pulumi_sandbox.providers.gcp.discovery import locations

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

GIVEN = "projects/example-ci/global/networks/ours"
CHOICES = {**RunnerNetwork.EXAMPLE, "project": "example-ci"}


def build(**changes: Any) -> Deployment:
    return deploy(lambda: RunnerNetwork("ci", RunnerNetworkArgs(**CHOICES, **changes)), computed=COMPUTED)


def test_it_makes_these_resources_and_no_others() -> None:
    names = sorted(row.name for row in build().rows)
    assert names == ["ci", "ci-deny", "ci-nat", "ci-network", "ci-router", "ci-subnetwork"]


def test_a_network_that_is_given_is_used_and_none_is_made() -> None:
    deployment = build(network=GIVEN)
    assert deployment.of(":Network") == []
    places = {row.name: row.inputs["network"] for row in deployment.rows if "network" in row.inputs}
    assert places == {"ci-subnetwork": GIVEN, "ci-router": GIVEN, "ci-deny": GIVEN}
    assert deployment.outputs[deployment.rows[0].urn]["network"] == GIVEN


def test_the_subnetwork_reaches_googles_apis_and_by_default_logs_no_connections() -> None:
    assert build().one(":Subnetwork").inputs == {
        "project": "example-ci",
        "region": "us-central1",
        "network": "ci-network-id",
        "ipCidrRange": "10.10.0.0/20",
        "privateIpGoogleAccess": True,
    }
    assert build(flow_logs=True).one(":Subnetwork").inputs["logConfig"] == {"metadata": "INCLUDE_ALL_METADATA"}


def test_the_way_out_is_for_its_own_subnetwork_alone() -> None:
    assert build().one(":RouterNat").inputs == {
        "project": "example-ci",
        "region": "us-central1",
        "router": "pool-router-1",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
        "subnetworks": [{"name": "ci-subnetwork-id", "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
        "enableDynamicPortAllocation": True,
        "minPortsPerVm": 64,
        "maxPortsPerVm": 4096,
        "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
    }


def test_nothing_is_let_in_and_ssh_only_through_iap_and_only_on_request() -> None:
    rule = {
        "project": "example-ci",
        "network": "ci-network-id",
        "direction": "INGRESS",
        "destinationRanges": ["10.10.0.0/20"],
    }
    deny = {**rule, "priority": 1000, "denies": [{"protocol": "all"}], "sourceRanges": ["0.0.0.0/0"]}
    ssh = {
        **rule,
        "priority": 900,
        "allows": [{"protocol": "tcp", "ports": ["22"]}],
        "sourceRanges": ["35.235.240.0/20"],
    }
    assert [row.inputs for row in build().of(":Firewall")] == [deny]
    assert {row.name: row.inputs for row in build(iap_ssh=True).of(":Firewall")} == {"ci-deny": deny, "ci-iap-ssh": ssh}


def test_whoever_takes_its_subnetwork_waits_for_the_way_out_and_the_walls() -> None:
    def program() -> None:
        network = RunnerNetwork("ci", RunnerNetworkArgs(**CHOICES, iap_ssh=True))
        gcp.compute.Address("one", subnetwork=network.subnetwork)

    address = deploy(program, computed=COMPUTED).one(":Address")
    assert address.inputs["subnetwork"] == "ci-subnetwork-id"
    urns = address.request.propertyDependencies["subnetwork"].urns
    assert sorted(urn.rpartition("::")[2] for urn in urns) == ["ci-deny", "ci-iap-ssh", "ci-nat", "ci-subnetwork"]


@pytest.mark.parametrize("region", locations("compute.v1"))
def test_every_region_of_compute_engine_is_taken(region: str) -> None:
    assert RunnerNetworkArgs.choice_problems({**RunnerNetwork.EXAMPLE, "region": region}) == []
