"""Check the API server's rules for Services.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, validateService and ValidateServiceUpdate.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    has_unknown,
    invalid,
    label_key,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, labels
from pulumi_sandbox.providers.resource import Problem

CLUSTER_IP, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "LoadBalancer", "ExternalName"
EXTERNAL = ("NodePort", LOAD_BALANCER)
TYPES = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, "NodePort")
NONE = "None"
PROTOCOLS, FAMILIES, TRAFFIC = ("SCTP", "TCP", "UDP"), ("IPv4", "IPv6"), ("Cluster", "Local")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
PORTS = "must be between 1 and 65535, inclusive"
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
TOPOLOGY, HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
NO_NAME = "may not be set for ExternalName services"
LONGEST_AFFINITY_SEC = 86400
# ValidateNonSpecialIP.
SPECIAL = {
    "is_unspecified": "may not be unspecified ({0})",
    "is_loopback": "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    "is_link_local": "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
    "is_multicast": "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
}


def service(given: Mapping[str, Any]) -> Iterator[Problem]:
    spec = given.get("spec")
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    annotations = inner(given, "metadata", "annotations") or {}
    kind = spec.get("type") or CLUSTER_IP
    if inner(annotations, TOPOLOGY) is not None and inner(annotations, HINTS) not in (None, annotations[TOPOLOGY]):
        message = f"must match annotations[{HINTS}] when both are specified"
        yield invalid(f"metadata.annotations[{TOPOLOGY}]", annotations[TOPOLOGY], message)
    if kind not in TYPES:
        yield unsupported("spec.type", kind, TYPES)
    yield from _name(spec, kind)
    yield from _addresses(spec, kind)
    yield from labels("spec.selector", spec.get("selector"))
    yield from _ports(spec, kind)
    yield from _session_affinity(spec)
    for at, one in enumerate(spec.get("externalIPs") or ()):
        yield from _external_address(f"spec.externalIPs[{at}]", one)
    yield from _load_balancer(spec, kind, annotations)
    yield from _traffic(spec, kind)


def _name(spec: Mapping[str, Any], kind: str) -> Iterator[Problem]:
    name = str(spec.get("externalName") or "").removesuffix(".")
    if kind != EXTERNAL_NAME:
        return
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", NO_NAME)
    if not name:
        yield required("spec.externalName")
    else:
        yield from (invalid("spec.externalName", name, message) for message in dns_subdomain(name))


def _addresses(spec: Mapping[str, Any], kind: str) -> Iterator[Problem]:
    """Check the cluster IPs and their families (ValidateServiceClusterIPsRelatedFields)."""
    address, path = spec.get("clusterIP") or "", "spec.clusterIPs"
    # The API server takes the one field from the other if only one is given (pkg/registry/core/service).
    listed = spec.get("clusterIPs") or ([address] if address else [])
    if kind == EXTERNAL_NAME:
        if listed:
            yield forbidden(path, NO_NAME)
        return
    if listed[:1] == [NONE] and kind in EXTERNAL:
        yield invalid(f"{path}[0]", NONE, f"may not be set to 'None' for {kind} services")
    if address and listed[0] != address:
        yield invalid(path, listed, "first value must match `clusterIP`")
    if not address and listed:
        yield invalid(path, listed, "must be empty when `clusterIP` is not specified")
    families = spec.get("ipFamilies") or []
    yield from _families(families, spec.get("ipFamilyPolicy"), len(listed))
    wrong = [problem for at, one in enumerate(listed) for problem in _cluster_address(path, at, one, listed)]
    yield from wrong
    if len(listed) > 2:
        yield invalid(path, listed, "may only hold up to 2 values")
    if wrong:
        return
    given_families = [_family(one) for one in listed]
    if len(set(given_families)) < len(listed):
        yield invalid(path, listed, "may specify no more than one IP for each IP family")
    for at, (given, wanted) in enumerate(zip(given_families, families, strict=False)):
        if listed != [NONE] and wanted in FAMILIES and given != wanted:
            yield invalid(f"{path}[{at}]", listed[at], f"expected an {wanted} value as indicated by `ipFamilies[{at}]`")


def _cluster_address(path: str, at: int, one: str, listed: list[str]) -> Iterator[Problem]:
    if at == 0 and one == NONE:
        if len(listed) > 1:
            yield invalid(path, listed, "'None' must be the first and only value")
    else:
        yield from address(f"{path}[{at}]", one)


def _families(families: list[Any], policy: Any, addresses: int) -> Iterator[Problem]:
    for at, one in enumerate(families):
        if one not in FAMILIES:
            yield unsupported(f"spec.ipFamilies[{at}]", one, FAMILIES)
        if one in families[:at]:
            yield duplicate(f"spec.ipFamilies[{at}]", one)
    if policy and policy not in FAMILY_POLICIES:
        yield unsupported("spec.ipFamilyPolicy", policy, FAMILY_POLICIES)
    # The allocator of addresses checks this (pkg/registry/core/service/storage/alloc.go, initIPFamilyFields).
    both = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    if policy == "SingleStack":
        for number, what in ((addresses, "cluster IPs"), (len(families), "IP families")):
            if number == 2:
                yield invalid("spec.ipFamilyPolicy", policy, f"{both} {what} are specified")


def _family(given: str) -> str:
    return "IPv6" if ":" in given else "IPv4"


def address(path: str, given: str) -> Iterator[Problem]:
    """Check an IP address (IsValidIPForLegacyField)."""
    if re.search(r"(^|\.)0\d+", given) and ":" not in given and _parsed(re.sub(r"(^|\.)0+(?=\d)", r"\1", given)):
        yield invalid(path, given, "must not have leading 0s")
    elif _parsed(given) is None:
        yield invalid(path, given, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _parsed(given: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(given)
    except ValueError:
        return None


def _external_address(path: str, given: str) -> Iterator[Problem]:
    wrong = list(address(path, given))
    yield from wrong
    parsed = _parsed(given)
    for name, message in SPECIAL.items() if parsed else ():
        if getattr(parsed, name):
            yield invalid(path, given, message.format(given))


def network(path: str, given: str) -> Iterator[Problem]:
    """Check an IP network (IsValidCIDRForLegacyField)."""
    whole, slash, length = given.partition("/")
    plain = re.sub(r"(^|\.)0+(?=\d)", r"\1", whole)
    try:
        parsed = ipaddress.ip_network(f"{plain}/{int(length)}" if slash else "", strict=False)
    except ValueError:
        yield invalid(path, given, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        return
    if plain != whole or length != str(int(length)):
        yield invalid(path, given, "must not have leading 0s in IP or prefix length")
    elif ipaddress.ip_address(plain) != parsed.network_address:
        yield invalid(path, given, "must not have bits set beyond the prefix length")


def _ports(spec: Mapping[str, Any], kind: str) -> Iterator[Problem]:
    listed = list(items(spec.get("ports")))
    headless = spec.get("clusterIP") == NONE
    if not listed and not headless and kind != EXTERNAL_NAME:
        yield required("spec.ports")
    names: set[str] = set()
    for at, port in listed:
        path = f"spec.ports[{at}]"
        name, number, target = port.get("name") or "", port.get("port"), port.get("targetPort")
        if not name and len(listed) > 1:
            yield required(f"{path}.name")
        elif name:
            yield from (invalid(f"{path}.name", name, message) for message in dns_label(name))
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        yield from _port_number(f"{path}.port", number)
        protocol = port.get("protocol") or "TCP"
        if protocol not in PROTOCOLS:
            yield unsupported(f"{path}.protocol", protocol, PROTOCOLS)
        if isinstance(target, int):
            # The default of 0 is the port.
            yield from _port_number(f"{path}.targetPort", target or number)
        elif isinstance(target, str) and target:
            yield from port_name(f"{path}.targetPort", target)
        if port.get("appProtocol"):
            text = port["appProtocol"]
            yield from (invalid(f"{path}.appProtocol", text, message) for message in label_key(text))
        if port.get("nodePort") and kind == CLUSTER_IP:
            yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")


def _port_number(path: str, given: Any) -> Iterator[Problem]:
    if isinstance(given, int) and not 1 <= given <= 65535:
        yield invalid(path, given, PORTS)


def port_name(path: str, given: str) -> Iterator[Problem]:
    """Check the name of a port (apimachinery, pkg/util/validation, IsValidPortName)."""
    if len(given) > 15:
        yield invalid(path, given, "must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", given):
        yield invalid(path, given, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", given):
        yield invalid(path, given, "must contain at least one letter (a-z)")
    if "--" in given:
        yield invalid(path, given, "must not contain consecutive hyphens")
    if given and "-" in (given[0], given[-1]):
        yield invalid(path, given, "must not begin or end with a hyphen")


def _session_affinity(spec: Mapping[str, Any]) -> Iterator[Problem]:
    affinity, settings = spec.get("sessionAffinity") or NONE, spec.get("sessionAffinityConfig")
    if affinity not in ("ClientIP", NONE):
        yield unsupported("spec.sessionAffinity", affinity, ("ClientIP", NONE))
    seconds = inner(settings, "clientIP", "timeoutSeconds")
    if affinity == "ClientIP" and isinstance(seconds, int) and not 0 < seconds <= LONGEST_AFFINITY_SEC:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield invalid(path, seconds, f"must be greater than 0 and less than {LONGEST_AFFINITY_SEC}")


def _load_balancer(spec: Mapping[str, Any], kind: str, annotations: Mapping[str, Any]) -> Iterator[Problem]:
    path, ranges = "spec.LoadBalancerSourceRanges", spec.get("loadBalancerSourceRanges") or []
    if ranges:
        if kind != LOAD_BALANCER:
            yield forbidden(path, LOAD_BALANCER_ONLY)
        for at, one in enumerate(ranges):
            yield from network(f"{path}[{at}]", one.strip())
    elif isinstance(text := inner(annotations, RANGES), str):
        path = f"metadata.annotations[{RANGES}]"
        if kind != LOAD_BALANCER:
            yield forbidden(path, LOAD_BALANCER_ONLY)
        for one in text.split(",") if text.strip() else ():
            yield from network(path, one.strip())
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        value = spec.get(field)
        if value is not None and kind != LOAD_BALANCER:
            yield forbidden(f"spec.{field}", LOAD_BALANCER_ONLY)
        elif isinstance(value, str):
            yield from (invalid(f"spec.{field}", value, message) for message in label_key(value))


def _traffic(spec: Mapping[str, Any], kind: str) -> Iterator[Problem]:
    external, check = spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort") or 0
    reachable = kind in EXTERNAL or (kind == CLUSTER_IP and bool(spec.get("externalIPs")))
    if external and not reachable:
        yield invalid("spec.externalTrafficPolicy", external, "may only be set for externally-accessible services")
    elif external and external not in TRAFFIC:
        yield unsupported("spec.externalTrafficPolicy", external, TRAFFIC)
    if check and not (kind == LOAD_BALANCER and external == "Local"):
        message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", check, message)
    elif check:
        yield from _port_number("spec.healthCheckNodePort", check)
    internal, distribution = spec.get("internalTrafficPolicy"), spec.get("trafficDistribution")
    if internal and internal not in TRAFFIC:
        yield unsupported("spec.internalTrafficPolicy", internal, TRAFFIC)
    if distribution is not None and distribution not in DISTRIBUTIONS:
        yield unsupported("spec.trafficDistribution", distribution, DISTRIBUTIONS)


def update(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    """Check a change of a Service."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    kinds = [one.get("type") or CLUSTER_IP for one in (before, after)]
    if kinds == [LOAD_BALANCER, LOAD_BALANCER] and before.get("loadBalancerClass") != after.get("loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", after.get("loadBalancerClass"), "may not change once set")
    old_addresses, new_addresses = before.get("clusterIPs") or [], after.get("clusterIPs") or []
    if EXTERNAL_NAME in kinds:
        return
    for at, (one, other) in enumerate(zip(old_addresses, new_addresses, strict=False)):
        if one != other:
            yield invalid(f"spec.clusterIPs[{at}]", new_addresses, "may not change once set")
    kept = after.get("ipFamilyPolicy") not in (None, "SingleStack")
    if new_addresses and len(new_addresses) < len(old_addresses) and kept:
        message = "must be 'SingleStack' to release the secondary cluster IP"
        yield invalid("spec.ipFamilyPolicy", after["ipFamilyPolicy"], message)
