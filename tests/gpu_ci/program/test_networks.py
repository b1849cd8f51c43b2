"""Networks a stack makes for its pools: one for each region that asks for one, and the pools are in it."""

from __future__ import annotations

from typing import Any

from tests.gpu_ci.program.stack import L4, SUBNETWORK, config
from tests.gpu_ci.program.test_program import STACK, run

HERE = {"ipRange": "10.10.0.0/20"}
A100 = {"kind": "gce-runners", "machineType": "a2-highgpu-1g", "zones": ["europe-west4-a"], "max": 1}


def stack(networks: Any, pools: Any = None) -> dict[str, Any]:
    return config(pools) | {"gpu-ci:site": {"networks": networks}}


def test_a_pool_is_in_the_network_that_is_made_for_its_region() -> None:
    found = run(stack({"us-central1": HERE | {"iapSsh": True}}))
    [network] = found.of("gpu-ci:gcp:RunnerNetwork")
    assert network.name == "runners-us-central1"
    subnetwork = found.one(":Subnetwork").inputs
    assert (subnetwork["region"], subnetwork["ipCidrRange"]) == ("us-central1", "10.10.0.0/20")
    [interface] = found.one(":RegionInstanceTemplate").inputs["networkInterfaces"]
    assert interface["subnetwork"] == found.outputs[network.urn]["subnetwork"] == "runners-us-central1-subnetwork-id"
    assert found.outputs[STACK]["networks"]["us-central1"]["subnetwork"] == interface["subnetwork"]
    assert len(found.of(":Firewall")) == 2


def test_other_regions_keep_the_subnetworks_they_are_given() -> None:
    pools = {"l4": L4, "a100": A100}
    values = config(pools) | {
        "gpu-ci:site": {"subnetworks": {"us-central1": SUBNETWORK}, "networks": {"europe-west4": HERE}}
    }
    interfaces = {
        row.name: row.inputs["networkInterfaces"][0]["subnetwork"] for row in run(values).of(":RegionInstanceTemplate")
    }
    assert interfaces == {"l4-template": SUBNETWORK, "a100-template": "runners-europe-west4-subnetwork-id"}


def test_a_stack_that_asks_for_none_makes_none() -> None:
    found = run(config())
    assert found.of("gpu-ci:gcp:RunnerNetwork") == []
    assert "networks" not in found.outputs[STACK]
