"""Check the API server's rules for network policies and role bindings (k8s.io/kubernetes v1.36.0)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    dns_subdomain,
    forbidden,
    has_unknown,
    invalid,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.rules.selectors import selector
from pulumi_sandbox.providers.kubernetes.rules.services import port_name
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

RBAC = "rbac.authorization.k8s.io"
PORTS = "must be between 1 and 65535, inclusive"


def network_policy(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Check a NetworkPolicy (pkg/apis/networking/validation/validation.go, ValidateNetworkPolicySpec)."""
    spec = given.get("spec")
    yield from selector("spec.podSelector", inner(spec, "podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for at, rule in items(inner(spec, direction)):
            path = f"spec.{direction}[{at}]"
            for place, port in items(rule.get("ports")):
                yield from _port(f"{path}.ports[{place}]", port)
            for place, peer in items(rule.get(peers)):
                yield from _peer(f"{path}.{peers}[{place}]", peer)
    kinds = inner(spec, "policyTypes")
    for at, kind in enumerate(kinds if isinstance(kinds, list) else ()):
        if isinstance(kind, str) and kind not in ("Ingress", "Egress"):
            yield unsupported(f"spec.policyTypes[{at}]", kind, ("Ingress", "Egress"))


def _port(path: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    protocol, port, end = given.get("protocol"), given.get("port"), given.get("endPort")
    if isinstance(protocol, str) and protocol not in ("TCP", "UDP", "SCTP"):
        yield unsupported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP"))
    if isinstance(port, int):
        if not 1 <= port <= 65535:
            yield invalid(f"{path}.port", port, PORTS)
        if isinstance(end, int) and end < port:
            yield invalid(f"{path}.endPort", port, "must be greater than or equal to `port`")
        if isinstance(end, int) and not 1 <= end <= 65535:
            yield invalid(f"{path}.endPort", end, PORTS)
    elif isinstance(port, str):
        yield from port_name(f"{path}.port", port)
    if isinstance(end, int) and not isinstance(port, int | Unknown):
        what = "non-numeric" if port is not None else "not specified"
        yield invalid(f"{path}.endPort", end, f"may not be specified when `port` is {what}")


def _peer(path: str, peer: Mapping[str, Any]) -> Iterator[Problem]:
    block = peer.get("ipBlock")
    others = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in others:
        yield from selector(f"{path}.{name}", peer[name])
    if block is None and not others:
        yield required(path, "must specify a peer")
    elif block is not None and others:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    network = _network(inner(block, "cidr"))
    if isinstance(inner(block, "cidr"), str) and network is None:
        yield _no_network(f"{path}.ipBlock.cidr", inner(block, "cidr"))
    excepted = inner(block, "except")
    for at, one in enumerate(excepted if isinstance(excepted, list) else ()):
        excepted_network = _network(one)
        if isinstance(one, str) and excepted_network is None:
            yield _no_network(f"{path}.ipBlock.except[{at}]", one)
        elif excepted_network is not None and network is not None and not _is_inside(excepted_network, network):
            yield invalid(f"{path}.ipBlock.except[{at}]", one, "must be a strict subset of `cidr`")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(given: Any) -> Network | None:
    try:
        return ipaddress.ip_network(given, strict=False) if isinstance(given, str) and "/" in given else None
    except ValueError:
        return None


def _no_network(path: str, given: Any) -> Problem:
    return invalid(path, given, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def _is_inside(part: Network, whole: Network) -> bool:
    if part.version != whole.version or part.prefixlen <= whole.prefixlen:
        return False
    return part.network_address in whole


def role_binding(*, namespaced: bool) -> Callable[[Mapping[str, Any]], Iterator[Problem]]:
    """Return the rule for a RoleBinding or a ClusterRoleBinding.

    Source: pkg/apis/rbac/validation/validation.go, ValidateRoleBinding and ValidateClusterRoleBinding.
    """

    def check(given: Mapping[str, Any]) -> Iterator[Problem]:
        kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
        group, kind = inner(given, "roleRef", "apiGroup"), inner(given, "roleRef", "kind")
        if isinstance(group, str) and group not in (RBAC, ""):
            yield unsupported("roleRef.apiGroup", group, (RBAC,))
        if isinstance(kind, str) and kind not in kinds:
            yield unsupported("roleRef.kind", kind, kinds)
        if inner(given, "roleRef") is not None and inner(given, "roleRef", "name") == "":
            yield required("roleRef.name")
        for at, subject in items(given.get("subjects")):
            path, kind, name = f"subjects[{at}]", subject.get("kind"), subject.get("name")
            if name == "":
                yield required(f"{path}.name")
            elif kind == "ServiceAccount" and isinstance(name, str):
                yield from (invalid(f"{path}.name", name, message) for message in dns_subdomain(name))
            if isinstance(kind, str) and kind not in ("ServiceAccount", "User", "Group"):
                yield unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
            if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")

    return check


def role(*, namespaced: bool) -> Callable[[Mapping[str, Any]], Iterator[Problem]]:
    """Return the rule for a Role or a ClusterRole (pkg/apis/rbac/validation/validation.go, ValidatePolicyRule)."""

    def check(given: Mapping[str, Any]) -> Iterator[Problem]:
        for at, rule in items(given.get("rules")):
            path = f"rules[{at}]"
            if has_unknown(rule):
                continue
            if not rule.get("verbs"):
                yield required(f"{path}.verbs", "verbs must contain at least one value")
            if urls := rule.get("nonResourceURLs"):
                here = f"{path}.nonResourceURLs"
                if namespaced:
                    yield invalid(here, urls, "namespaced rules cannot apply to non-resource URLs")
                if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                    message = "rules cannot apply to both regular resources and non-resource URLs"
                    yield invalid(here, urls, message)
                continue
            for name, what in (("apiGroups", "api group"), ("resources", "resource")):
                if not rule.get(name):
                    yield required(f"{path}.{name}", f"resource rules must supply at least one {what}")

    return check
