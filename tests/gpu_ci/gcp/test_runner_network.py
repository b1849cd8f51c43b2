"""The resources of a runner network, and its invalid arguments."""

from __future__ import annotations

import pulumi_gcp as gcp
from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs
from pulumi_sandbox.providers.gcp.discovery import document

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

CHOICES = {**RunnerNetwork.EXAMPLE, "project": "example-ci"}


def test_whoever_takes_its_subnetwork_waits_for_the_way_out_and_the_walls() -> None:
    def program() -> None:
        network = RunnerNetwork("ci", RunnerNetworkArgs(**CHOICES, iap_ssh=True))
        gcp.compute.Address("one", subnetwork=network.subnetwork)

    address = deploy(program, computed=COMPUTED).one(":Address")
    assert address.inputs["subnetwork"] == "ci-subnetwork-id"
    urns = address.request.propertyDependencies["subnetwork"].urns
    assert sorted(urn.rpartition("::")[2] for urn in urns) == ["ci-deny", "ci-iap-ssh", "ci-nat", "ci-subnetwork"]


def test_every_region_of_compute_engine_is_taken() -> None:
    problems = [
        RunnerNetworkArgs.choice_problems({**RunnerNetwork.EXAMPLE, "region": each["location"]})
        for each in document("compute.v1")["endpoints"]
    ]
    assert [each for each in problems if each] == []
