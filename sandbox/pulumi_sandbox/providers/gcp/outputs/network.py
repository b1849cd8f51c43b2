"""Compute outputs of network resources, as the provider reads them back."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, part, self_link
from pulumi_sandbox.providers.gcp.outputs.machine import Located, fingerprint, keep_or_make
from pulumi_sandbox.providers.gcp.site import Values
from pulumi_sandbox.providers.inputs import rows, text_of


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


KINDS: dict[str, Callable[[Located], Values]] = {
    types.NETWORK: _network,
    types.SUBNETWORK: _subnetwork,
    types.FIREWALL: _firewall,
    types.ROUTER: _router,
    types.ROUTER_NAT: _nat,
}
