"""Map properties of network resources to fields of the Google API (types.py describes the form).

The renames are those of terraform-provider-google (commit e03b7622, google/services/{compute,servicenetworking}).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import IN_PROJECT, PROVIDER_ONLY, REGIONAL, Target

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
ROUTER = "gcp:compute/router:Router"
ROUTER_NAT = "gcp:compute/routerNat:RouterNat"
GLOBAL_ADDRESS = "gcp:compute/globalAddress:GlobalAddress"
NETWORK_ATTACHMENT = "gcp:compute/networkAttachment:NetworkAttachment"
CONNECTION = "gcp:servicenetworking/connection:Connection"

TARGETS: dict[str, Target] = {
    NETWORK: Target(
        "compute.v1",
        "Network",
        "networks",
        (),
        IN_PROJECT
        | {
            "routingMode": "routingConfig.routingMode",
            "bgpAlwaysCompareMed": "routingConfig.bgpAlwaysCompareMed",
            "bgpBestPathSelectionMode": "routingConfig.bgpBestPathSelectionMode",
            "bgpInterRegionCost": "routingConfig.bgpInterRegionCost",
            "deleteBgpAlwaysCompareMed": "",
            "deleteDefaultRoutesOnCreate": "",
        },
    ),
    SUBNETWORK: Target("compute.v1", "Subnetwork", "subnetworks", (), REGIONAL | {"sendSecondaryIpRangeIfEmpty": ""}),
    FIREWALL: Target(
        "compute.v1",
        "Firewall",
        "firewalls",
        (),
        IN_PROJECT
        | {
            "allows": "allowed",
            "allows.protocol": "IPProtocol",
            "denies": "denied",
            "denies.protocol": "IPProtocol",
            "enableLogging": "logConfig.enable",
        },
    ),
    ROUTER: Target("compute.v1", "Router", "routers", (), REGIONAL),
    # A NAT is a field of its router; the provider creates it with an update of the router.
    ROUTER_NAT: Target(
        "compute.v1",
        "RouterNat",
        "routers",
        (),
        REGIONAL
        | {
            "router": "",
            "initialNatIps": "",
            "subnetworks.sourceIpRangesToNats": "sourceIpRangesToNat",
        },
    ),
    GLOBAL_ADDRESS: Target("compute.v1", "Address", "globalAddresses", (), IN_PROJECT),
    NETWORK_ATTACHMENT: Target("compute.v1", "NetworkAttachment", "networkAttachments", (), REGIONAL),
    # The input `service` is in the URL path; the field of the same name is an output.
    CONNECTION: Target(
        "servicenetworking.v1",
        "Connection",
        "services.connections",
        (),
        PROVIDER_ONLY | {"service": "", "updateOnCreationFail": ""},
    ),
}
