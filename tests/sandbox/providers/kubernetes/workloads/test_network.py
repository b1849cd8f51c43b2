"""A container reaches the addresses that the network policies of its namespace allow."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from gpu_ci.kubernetes import gpu_namespace
from pulumi_sandbox.providers.kubernetes.workloads import containers
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.kubernetes.conftest import Cluster

CLOSED, DNS = gpu_namespace.closed(), gpu_namespace.to_dns()
WORLD = gpu_namespace.to_public_addresses([443], [])
PRIVATE = gpu_namespace.to_public_addresses([443], ["10.100.0.0/16"])


def policies(cluster: Cluster, *specs: dict[str, Any]) -> None:
    for number, spec in enumerate(specs):
        given = {"metadata": {"name": f"p-{number}", "namespace": "ci"}, "spec": spec}
        cluster.world.insert(Record(containers.POLICY, f"ci/p-{number}", f"p-{number}", "", given, given))


def answers(cluster: Cluster, namespace: str = "ci", enforced: bool = True) -> bool:
    """Return True if the container reaches the address after the pod's first seconds."""
    with containers.api_server(cluster.world, namespace, {"gpu-ci-pool": "l4"}, enforced) as found:
        address = found["KUBERNETES_SERVICE_HOST"], int(found["KUBERNETES_SERVICE_PORT"])
        for _ in range(100):
            try:
                socket.create_connection(address, 1).close()
            except OSError:
                return False
            time.sleep(0.002)
    return True


@pytest.mark.parametrize(
    ("specs", "reaches"),
    [
        ([], True),
        ([CLOSED], False),
        ([CLOSED, DNS, WORLD], False),
        ([CLOSED, DNS, PRIVATE], True),
        ([{**CLOSED, "policyTypes": ["Ingress"]}], True),
        ([{**CLOSED, "podSelector": {"matchLabels": {"gpu-ci-pool": "t4"}}}], True),
    ],
)
def test_a_pod_reaches_the_api_server_unless_policies_close_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, specs: list[dict[str, Any]], reaches: bool
) -> None:
    monkeypatch.setattr(containers, "OPEN_SEC", 0.0)
    policies(cluster, *specs)
    assert answers(cluster) is reaches
    assert answers(cluster, enforced=False)
    assert answers(cluster, namespace="other")


def test_a_pod_is_open_for_its_first_moments(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "OPEN_SEC", 60.0)
    policies(cluster, CLOSED)
    assert answers(cluster)


@pytest.mark.parametrize(
    ("address", "protocol", "port", "reaches"),
    [
        ("169.254.20.10", "UDP", 53, True),
        ("169.254.20.10", "TCP", 53, True),
        ("169.254.20.10", "TCP", 443, False),
        ("169.254.169.254", "UDP", 53, False),
        ("140.82.112.3", "TCP", 443, True),
    ],
)
def test_pods_ask_the_cache_of_their_node_for_names_and_reach_no_other_link_local_address(
    cluster: Cluster, address: str, protocol: str, port: int, reaches: bool
) -> None:
    policies(cluster, CLOSED, DNS, WORLD)
    assert containers.allows_egress(cluster.world, "ci", {"gpu-ci-pool": "l4"}, (address, port), protocol) is reaches
