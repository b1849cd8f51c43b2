"""Emulate network policies for the addresses that the pods of the sandbox use, such as that of the API server.

- Every container has the address of the API server, which is the first service address of a cluster
  (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
- On EKS, the VPC CNI enforces policies only with enableNetworkPolicy. In its standard mode, a pod is open for its first
  seconds (docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html; aws/aws-network-policy-agent issues 189 and
  345).
- On GKE, the DNS server of a node has a link-local address, which only an `ipBlock` can allow (tektoncd/operator#4000).
- `values: {kubernetes: {networkPolicies: false}}` emulates a cluster that does not enforce policies.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items, matches
from pulumi_sandbox.world.store import World

POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
SERVICE_ADDRESS, SERVICE_PORT = "10.100.0.1", 443
OPEN_SEC = 1.0
_QUEUE = 1024


@contextlib.contextmanager
def api_server(
    world: World, namespace: str, labels: Mapping[str, str], policies_enforced: bool
) -> Iterator[dict[str, str]]:
    """Yield the variables of the API server's address, replaced by an open or closed local address."""
    # No code accepts connections. They are established and stay in the backlog.
    with socket.create_server(("127.0.0.1", 0), backlog=_QUEUE) as server:
        host, port = server.getsockname()
        timer = threading.Timer(OPEN_SEC, server.close)
        timer.daemon = True
        if policies_enforced and not allows_egress(world, namespace, labels, (SERVICE_ADDRESS, SERVICE_PORT)):
            timer.start()
        yield {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
        timer.cancel()


def allows_egress(
    world: World, namespace: str, labels: Mapping[str, str], target: tuple[str, int], protocol: str = "TCP"
) -> bool:
    """Return True if a pod can reach an address outside of the pod network.

    If a policy selects the pod for egress, the pod reaches only the addresses that its policies allow
    (kubernetes.io/docs/concepts/services-networking/network-policies, "The two sorts of pod isolation"). Only an
    `ipBlock` can allow such an address.
    """
    specs = [
        spec
        for row in world.find(POLICY)
        if inner(row.inputs, "metadata", "namespace") == namespace
        and "Egress" in ((spec := inner(row.inputs, "spec") or {}).get("policyTypes") or ())
        and matches(spec.get("podSelector"), labels)
    ]
    return not specs or any(
        _rule_allows(rule, target, protocol) for spec in specs for _, rule in items(spec.get("egress"))
    )


def _rule_allows(rule: Mapping[str, Any], target: tuple[str, int], protocol: str) -> bool:
    address, port = target
    ports = [(one.get("protocol", "TCP"), one.get("port")) for _, one in items(rule.get("ports"))]
    if ports and (protocol, port) not in ports:
        return False
    blocks = [inner(one, "ipBlock") for _, one in items(rule.get("to"))]
    return not blocks or any(_contains(block, ip_address(address)) for block in blocks if block)


def _contains(block: Mapping[str, Any], address: IPv4Address | IPv6Address) -> bool:
    excepted = any(address in ip_network(one) for one in block.get("except") or ())
    return address in ip_network(str(block.get("cidr"))) and not excepted
