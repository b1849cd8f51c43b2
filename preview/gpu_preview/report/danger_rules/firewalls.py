"""Finds what firewalls of each kind allow from the whole Internet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...diff.value_pairs import pairs
from .addresses import open_addresses

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
    return set(_rule(inputs)) if _upper(inputs.get("type")) == "INGRESS" else set()


def _rule(rule: Inputs) -> Iterator[str]:
    ports = _range(rule, "protocol")
    for key in ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6"):
        yield from (f"{where} ({ports})" for where in open_addresses(rule.get(key)))


def _ingress_rule(inputs: Inputs) -> set[str]:
    ports = _range(inputs, "ipProtocol")
    return {f"{where} ({ports})" for key in ("cidrIpv4", "cidrIpv6") for where in open_addresses(inputs.get(key))}


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
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _ingress_rule,
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": _network_policy,
}
"""Resource types, each with the function that returns the allowed addresses, with protocol and ports if known."""
