"""Compute ids and outputs of network resources, as the provider reads them back."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from urllib.parse import quote_plus

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, in_region, last, part, self_link
from pulumi_sandbox.providers.gcp.outputs.machine import Located, fingerprint, keep_or_make, labels
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import rows, text_of

_GLOBAL = {types.NETWORK: "networks", types.FIREWALL: "firewalls", types.GLOBAL_ADDRESS: "addresses"}
_REGIONAL = {
    types.SUBNETWORK: "subnetworks",
    types.ROUTER: "routers",
    types.NETWORK_ATTACHMENT: "networkAttachments",
}


def identity(token: str, inputs: Values, site: Site) -> str:
    project, region, _ = site.place(inputs)
    name = text_of(inputs, "name")
    if token == types.CONNECTION:
        return f"{quote_plus(text_of(inputs, 'network'))}:{quote_plus(text_of(inputs, 'service'))}"
    if token == types.ROUTER_NAT:
        return f"{project}/{region}/{last(text_of(inputs, 'router'))}/{name}"
    if token in _GLOBAL:
        return everywhere(project, _GLOBAL[token], name)
    return in_region(project, region, _REGIONAL[token], name)


def _network(at: Located) -> Values:
    numeric = keep_or_make(at.old, "numericId", number)
    return {
        "autoCreateSubnetworks": at.inputs.get("autoCreateSubnetworks") is not False,
        "bgpAlwaysCompareMed": False,
        "bgpBestPathSelectionMode": text_of(at.inputs, "bgpBestPathSelectionMode") or "LEGACY",
        "bgpInterRegionCost": text_of(at.inputs, "bgpInterRegionCost"),
        "gatewayIpv4": "",
        "internalIpv6Range": text_of(at.inputs, "internalIpv6Range"),
        "mtu": at.inputs.get("mtu") or 1460,
        "networkFirewallPolicyEnforcementOrder": text_of(at.inputs, "networkFirewallPolicyEnforcementOrder")
        or "AFTER_CLASSIC_FIREWALL",
        "networkId": numeric,
        "numericId": numeric,
        "routingMode": text_of(at.inputs, "routingMode") or "REGIONAL",
        "selfLink": self_link(at.path),
    }


def _subnetwork(at: Located) -> Values:
    try:
        gateway = str(next(ipaddress.ip_network(text_of(at.inputs, "ipCidrRange"), strict=False).hosts()))
    except (ValueError, StopIteration):
        gateway = ""
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "fingerprint": fingerprint(at.inputs),
        "gatewayAddress": gateway,
        "ipv6CidrRange": "",
        "ipv6GceEndpoint": "",
        "externalIpv6Prefix": text_of(at.inputs, "externalIpv6Prefix"),
        "internalIpv6Prefix": text_of(at.inputs, "internalIpv6Prefix"),
        "privateIpGoogleAccess": bool(at.inputs.get("privateIpGoogleAccess")),
        "privateIpv6GoogleAccess": text_of(at.inputs, "privateIpv6GoogleAccess") or "DISABLE_GOOGLE_ACCESS",
        "purpose": text_of(at.inputs, "purpose") or "PRIVATE",
        "region": at.region,
        "selfLink": self_link(at.path),
        "stackType": text_of(at.inputs, "stackType") or "IPV4_ONLY",
        "state": "READY",
        "subnetworkId": keep_or_make(at.old, "subnetworkId", lambda: int(number()) // 10**4),
        "network": self_link(absolute(text_of(at.inputs, "network"), part(at.path, "projects")))
        if "/" in text_of(at.inputs, "network")
        else self_link(everywhere(part(at.path, "projects"), "networks", text_of(at.inputs, "network"))),
    }


def _firewall(at: Located) -> Values:
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "destinationRanges": rows(at.inputs.get("destinationRanges")),
        "direction": text_of(at.inputs, "direction") or "INGRESS",
        "enableLogging": at.inputs.get("logConfig") is not None,
        "priority": at.inputs.get("priority") if at.inputs.get("priority") is not None else 1000,
        "selfLink": self_link(at.path),
        "sourceRanges": rows(at.inputs.get("sourceRanges")),
    }


def _router(at: Located) -> Values:
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "region": at.region,
        "selfLink": self_link(at.path),
    }


def _nat(at: Located) -> Values:
    return {
        "autoNetworkTier": text_of(at.inputs, "autoNetworkTier") or "PREMIUM",
        "drainNatIps": rows(at.inputs.get("drainNatIps")),
        "enableDynamicPortAllocation": at.inputs.get("enableDynamicPortAllocation") is True,
        "enableEndpointIndependentMapping": at.inputs.get("enableEndpointIndependentMapping") is True,
        "endpointTypes": rows(at.inputs.get("endpointTypes")) or ["ENDPOINT_TYPE_VM"],
        "natIps": rows(at.inputs.get("natIps")),
        "region": at.region,
    }


def _address(at: Located) -> Values:
    bits = at.inputs.get("prefixLength")
    return labels(at.inputs, at.site) | {
        # Google chooses any free address.
        "address": text_of(at.inputs, "address")
        or keep_or_make(at.old, "address", lambda: "10.64.0.0" if bits else "203.0.113.7"),
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "labelFingerprint": fingerprint(at.inputs.get("labels") or {}),
        "selfLink": self_link(at.path),
    }


def _attachment(at: Located) -> Values:
    return {
        "connectionEndpoints": [],
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "fingerprint": fingerprint(at.inputs),
        "kind": "compute#networkAttachment",
        "network": "",
        "region": at.region,
        "selfLink": self_link(at.path),
        "selfLinkWithId": self_link(at.path),
    }


def _connection(at: Located) -> Values:
    return {"peering": text_of(at.inputs, "service").replace(".", "-")}


KINDS: dict[str, Callable[[Located], Values]] = {
    types.NETWORK: _network,
    types.SUBNETWORK: _subnetwork,
    types.FIREWALL: _firewall,
    types.ROUTER: _router,
    types.ROUTER_NAT: _nat,
    types.GLOBAL_ADDRESS: _address,
    types.NETWORK_ATTACHMENT: _attachment,
    types.CONNECTION: _connection,
}
