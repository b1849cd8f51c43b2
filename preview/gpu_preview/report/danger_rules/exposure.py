"""The rule `public`: resources that the whole Internet can newly reach or read."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...diff.value_pairs import ValuePair, pairs, plain
from ...engine.states import Change, StackStates, State
from ...model import Finding
from ..danger_rule import PUBLIC, shortened
from . import identity


@dataclass(frozen=True)
class Exposes:
    """A property that makes something public."""

    types: str
    """A pattern of types of resources."""
    key: str
    """The property's name, at any depth."""
    is_public: Callable[[Any], bool]
    text: str
    by_default: bool = False
    """True if removing the property from an existing resource also makes it public."""


def _true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _false(value: Any) -> bool:
    return value is False or (isinstance(value, str) and value.lower() == "false")


def _some(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value.lower() in values


_EVERYBODY = _one_of("allusers", "allauthenticatedusers")
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_BLOCK = r"aws:s3/(bucketPublicAccessBlock|accountPublicAccessBlock):.*"

EXPOSES = (
    Exposes("gcp:compute/.*", "accessConfigs", _some, "gives machines a public address"),
    Exposes("gcp:compute/.*", "ipv6AccessConfigs", _some, "gives machines a public IPv6 address"),
    Exposes("gcp:container/.*", "enablePrivateEndpoint", _false, "opens the control plane to the Internet", True),
    Exposes("gcp:container/.*", "enablePrivateNodes", _false, "gives nodes public addresses", True),
    Exposes("gcp:sql/.*", "ipv4Enabled", _true, "gives the database a public address"),
    Exposes("gcp:storage/bucket:Bucket", "publicAccessPrevention", _one_of("inherited"), "may be made public", True),
    Exposes("gcp:storage/.*", "predefinedAcl", _one_of("publicread", "publicreadwrite"), "lets everybody read it"),
    Exposes("gcp:storage/.*", "entity", _EVERYBODY, "gives everybody access"),
    Exposes("gcp:.*", "member", _EVERYBODY, "grants the role to everybody"),
    Exposes("gcp:.*", "members", lambda value: isinstance(value, list) and any(map(_EVERYBODY, value)),
            "grants the role to everybody"),
    Exposes("aws:.*", "associatePublicIpAddress", _true, "gives machines a public address"),
    Exposes("aws:ec2/subnet:Subnet", "mapPublicIpOnLaunch", _true, "gives every machine in it a public address"),
    Exposes("aws:.*", "publiclyAccessible", _true, "gives it a public address"),
    Exposes("aws:lambda/functionUrl:FunctionUrl", "authorizationType", _one_of("none"), "lets everybody call it"),
    Exposes("aws:s3/.*", "acl", _one_of("public-read", "public-read-write"), "lets everybody read it"),
    *(Exposes(_BLOCK, key, _false, "turns off a block of public access", True) for key in _BLOCKS),
    Exposes("github:.*", "allowsPublicRepositories", _true, "lets anybody's pull request to a public repository run "
            "on the runners, also on those that are registered now, which accept every run"),
    Exposes("github:index/repository:Repository", "visibility", _one_of("public"), "makes the repository public"),
    Exposes("github:index/repository:Repository", "private", _false, "makes the repository public"),
)  # fmt: skip

_EKS = "aws:eks/cluster:Cluster"
_SERVICE = "kubernetes:core/v1:Service"
_NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
# Annotations that keep a load balancer inside (GKE's, and those of the two controllers on AWS).
_INSIDE = {
    "networking.gke.io/load-balancer-type": ("internal",),
    "cloud.google.com/load-balancer-type": ("internal",),
    "service.beta.kubernetes.io/aws-load-balancer-scheme": ("internal",),
    "service.beta.kubernetes.io/aws-load-balancer-internal": ("true", "0.0.0.0/0"),
}


def check(change: Change, stack_states: StackStates) -> Iterator[Finding]:
    for pair in change.inputs:
        for rule in EXPOSES:
            if pair.key == rule.key and _opens(rule, pair, change) and re.fullmatch(rule.types, change.type):
                yield PUBLIC.found(change, f"{change.name}: {shortened(pair.text, 120)} {rule.text}")
    yield from (PUBLIC.found(change, f"{change.name} {text}") for text in _resource_texts(change, stack_states))


def _opens(rule: Exposes, pair: ValuePair, change: Change) -> bool:
    """Return True if the property is public now and was not before. A list that was already public is not reported."""
    if pair.path[-1] != rule.key:
        return False
    gone = rule.by_default and change.before is not None and pair.after is None and plain(pair.before)
    return (gone or rule.is_public(pair.after)) and not rule.is_public(pair.before)


def _resource_texts(change: Change, stack_states: StackStates) -> Iterator[str]:
    """Yield exposures that depend on several properties."""
    before, after = change.before, change.after
    if before and change.ends == "is deleted":
        if re.fullmatch(_BLOCK, change.type) and not _bucket_goes(before, stack_states):
            yield "is deleted: the bucket can be made public"
        if change.type == _NETWORK_POLICY and not set(before.dependencies) & stack_states.deleted:
            yield "is deleted: traffic that it blocked may reach its pods"
        return
    if after is None:
        return
    firewall = FIREWALLS.get(change.type, _no_firewall)
    if opened := sorted(firewall(after.inputs) - (firewall(before.inputs) if before else set())):
        yield f"allows traffic from {shortened(', '.join(opened), 200)}"
    if (
        change.type == _EKS
        and _open_control_plane(after.inputs)
        and not (before and _open_control_plane(before.inputs))
    ):
        yield "has a control plane that the whole Internet can reach (endpointPublicAccess)"
    if change.type == _SERVICE and _outside(after.inputs) and not (before and _outside(before.inputs)):
        yield "is a load balancer with a public address"
    anyone = identity.open_to_anyone
    if new := sorted(anyone(after.inputs) - (anyone(before.inputs) if before else set())):
        yield f"lets anyone do {shortened(', '.join(new), 200)}"


def _no_firewall(_inputs: Mapping[str, Any]) -> set[str]:
    return set()


def _bucket_goes(block: State, stack_states: StackStates) -> bool:
    return any(":Bucket" in urn for urn in set(block.dependencies) & stack_states.deleted)


def _open_control_plane(inputs: Mapping[str, Any]) -> bool:
    """Check the endpoint of an EKS cluster, which is public by default
    (docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html)."""
    config = inputs.get("vpcConfig")
    if not isinstance(config, Mapping) or not (
        config.get("endpointPublicAccess") is None or _true(config.get("endpointPublicAccess"))
    ):
        return False
    cidrs = config.get("publicAccessCidrs")
    return "0.0.0.0/0" in cidrs or "::/0" in cidrs if isinstance(cidrs, list) and cidrs else cidrs in (None, [])


def _outside(inputs: Mapping[str, Any]) -> bool:
    spec, metadata = inputs.get("spec"), inputs.get("metadata")
    if not isinstance(spec, Mapping) or spec.get("type") != "LoadBalancer":
        return False
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    given = annotations if isinstance(annotations, Mapping) else {}
    return not any(str(given.get(key)).lower() in values for key, values in _INSIDE.items())


Inputs = Mapping[str, Any]


def _google(inputs: Inputs) -> set[str]:
    """gcp.compute.Firewall. Without a source it allows every address (REST reference of firewalls, sourceRanges)."""
    if inputs.get("disabled") is True or _upper(inputs.get("direction"), "INGRESS") != "INGRESS":
        return set()
    sources = [inputs.get(key) for key in ("sourceRanges", "sourceTags", "sourceServiceAccounts")]
    from_anywhere = open_addresses(sources[0]) if any(sources) else ["0.0.0.0/0"]
    return {f"{where} ({ports})" for where in from_anywhere for ports in _ports(inputs.get("allows"))}


def _google_policy(inputs: Inputs) -> set[str]:
    """A rule of a firewall policy."""
    if _upper(inputs.get("direction")) != "INGRESS" or _upper(inputs.get("action")) != "ALLOW":
        return set()
    match = inputs.get("match")
    return set(open_addresses(match.get("srcIpRanges"))) if isinstance(match, Mapping) else set()


def _group(inputs: Inputs) -> set[str]:
    """aws.ec2.SecurityGroup with inline rules."""
    rules = inputs.get("ingress")
    return {text for rule in (rules if isinstance(rules, list) else []) if isinstance(rule, Mapping)
            for text in _rule(rule)}  # fmt: skip


def _group_rule(inputs: Inputs) -> set[str]:
    return set(_rule(inputs)) if _upper(inputs.get("type"), "INGRESS") == "INGRESS" else set()


def _rule(rule: Inputs) -> Iterator[str]:
    ports = _range(rule, "ipProtocol" if "ipProtocol" in rule else "protocol")
    for key in ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6"):
        yield from (f"{where} ({ports})" for where in open_addresses(rule.get(key)))


def _network_policy(inputs: Inputs) -> set[str]:
    """Yield address blocks that can reach pods. The egress of pods is not an exposure."""
    spec = inputs.get("spec")
    rules = spec.get("ingress") if isinstance(spec, Mapping) else None
    return {
        where for pair in pairs(None, rules if isinstance(rules, list) else []) if pair.key == "cidr"
        for where in open_addresses(pair.after)
    }  # fmt: skip


def _ports(allows: Any) -> Iterator[str]:
    for each in allows if isinstance(allows, list) else []:
        if isinstance(each, Mapping):
            ports = each.get("ports")
            named = " ".join(str(port) for port in ports) if isinstance(ports, list) and ports else "every port"
            yield f"{each.get('protocol', 'any')} {named}"


def _range(rule: Inputs, protocol: str) -> str:
    low, high, over = rule.get("fromPort"), rule.get("toPort"), rule.get(protocol)
    if over in ("-1", -1, "all") or low is None:
        return "every port" if over in (None, "-1", -1, "all") else f"{over} every port"
    return f"{over} {low}" if low == high else f"{over} {low}-{high}"


def _upper(value: Any, default: str = "") -> str:
    return value.upper() if isinstance(value, str) else default


FIREWALLS: Mapping[str, Callable[[Inputs], set[str]]] = {
    "gcp:compute/firewall:Firewall": _google,
    "gcp:compute/firewallPolicyRule:FirewallPolicyRule": _google_policy,
    "gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule": _google_policy,
    "gcp:compute/regionNetworkFirewallPolicyRule:RegionNetworkFirewallPolicyRule": _google_policy,
    "aws:ec2/securityGroup:SecurityGroup": _group,
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _group,
    "aws:ec2/securityGroupRule:SecurityGroupRule": _group_rule,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _group_rule,
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": _network_policy,
}
"""Resource types, each with the function that returns the allowed addresses, with protocol and ports if known."""


# 0.0.0.0/1 and 128.0.0.0/1 together are 0.0.0.0/0, so large parts count too. One company can own a /8.
_WIDEST = {4: 7, 6: 15}


def open_addresses(values: Any) -> list[str]:
    """Return the open addresses in a list, or in one address. Other values are left out."""
    found: Iterable[Any] = values if isinstance(values, list) else [values]
    return [each for each in found if isinstance(each, str) and is_open(each)]


def is_open(cidr: str) -> bool:
    """Return True if the range is the whole Internet or a large part of it."""
    try:
        network = ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        return False
    return network.prefixlen <= _WIDEST[network.version] and not network.is_private
