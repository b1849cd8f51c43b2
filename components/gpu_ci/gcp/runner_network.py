"""The component RunnerNetwork: a subnetwork for runners with Cloud NAT, which rejects incoming connections."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator, Field

from ..args import Args, ComponentArgs, Input
from ..component import Component
from .network_choices import NetworkChoices, network_region
from .resource_names import REGION, Network, Project

# The range from which Identity-Aware Proxy forwards connections (cloud.google.com/iap/docs/using-tcp-forwarding,
# "Create a firewall rule").
_IAP = "35.235.240.0/20"
# The rules of Google's default network have priority 65534. Rules without a priority have 1000 (compute v1, Firewall).
_DENY_PRIORITY, _ALLOW_PRIORITY = 1000, 900

# Minimum and maximum number of NAT ports of one machine, which limit its concurrent connections to one destination.
# With Google's default of 64 ports, package downloads of a job lose connections
# (gardener/gardener-extension-provider-gcp#6, openshift/installer#4273). Both numbers must be powers of two (discovery
# document compute v1, RouterNat). One NAT address has 64,512 ports, which is enough for 15 machines with the maximum
# number of ports.
_NAT_PORTS = (64, 4096)


class RunnerNetworkArgs(NetworkChoices, ComponentArgs):
    """The arguments of a runner network."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project"})

    region: Annotated[str, Field(pattern=REGION), AfterValidator(network_region)] = Field(
        description="the region of the runners, such as us-central1"
    )
    network: Input[Network] | None = Field(
        default=None,
        description="the network in which to create the subnetwork, as projects/<project>/global/networks/<name>; by "
        "default a new network",
    )
    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the network")


class RunnerNetwork(Component):
    """A subnetwork for runners with access to the internet and to Google APIs, closed to incoming connections.

    Creates: a VPC network unless `network` is set, and a subnetwork with Private Google Access. A Cloud Router with NAT
    for that subnetwork, and a firewall rule that denies incoming traffic to it. With `iapSsh`: also a firewall rule
    that allows SSH through Identity-Aware Proxy.
    Costs: the NAT's addresses by the hour while it has any, and the traffic through it. Logs of the connections that
    the NAT dropped, and flow logs, are billed per GiB.
    Does not: allow traffic between machines, or give any machine a public address.
    Replaces on change of: everything for region. For network, the subnetwork, router and NAT. For ipRange, the
    subnetwork, unless the new range contains the old one.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerNetwork"
    ARGS: ClassVar[type[Args]] = RunnerNetworkArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"region": "us-central1", "ipRange": "10.10.0.0/20"}

    network: pulumi.Output[str]
    """The network, in the form that a runner pool accepts."""
    subnetwork: pulumi.Output[str]
    """The subnetwork, in the form that a runner pool accepts. The output waits for the NAT and the firewall rules."""

    def __init__(self, name: str, args: RunnerNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self.network = (
            pulumi.Output.from_input(args.network)
            if args.network is not None
            else gcp.compute.Network(
                f"{name}-network",
                project=args.project,
                auto_create_subnetworks=False,
                opts=self.child(),
            ).id
        )
        subnetwork = gcp.compute.Subnetwork(
            f"{name}-subnetwork",
            project=args.project,
            region=args.region,
            network=self.network,
            ip_cidr_range=args.ip_range,
            private_ip_google_access=True,
            log_config={"metadata": "INCLUDE_ALL_METADATA"} if args.flow_logs else None,
            opts=self.child(),
        )
        router = gcp.compute.Router(
            f"{name}-router", project=args.project, region=args.region, network=self.network, opts=self.child()
        )
        nat = gcp.compute.RouterNat(
            f"{name}-nat",
            project=args.project,
            region=args.region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            # The NAT is for this subnetwork only, because other subnetworks of the network may have their own NAT.
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[{"name": subnetwork.id, "source_ip_ranges_to_nats": ["ALL_IP_RANGES"]}],
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=_NAT_PORTS[0],
            max_ports_per_vm=_NAT_PORTS[1],
            log_config={"enable": True, "filter": "ERRORS_ONLY"},  # connections that got no port
            opts=self.child(),
        )
        firewall_rules = [
            self._firewall(name, "deny", args, {"denies": [{"protocol": "all"}], "source_ranges": ["0.0.0.0/0"]})
        ]
        if args.iap_ssh:
            ssh = {"allows": [{"protocol": "tcp", "ports": ["22"]}], "source_ranges": [_IAP]}
            firewall_rules.append(self._firewall(name, "iap-ssh", args, ssh))
        self.subnetwork = pulumi.Output.all(subnetwork.id, nat.id, *(each.id for each in firewall_rules)).apply(
            lambda values: str(values[0])
        )
        self.register()

    def _firewall(self, name: str, role: str, args: RunnerNetworkArgs, rule: dict[str, Any]) -> gcp.compute.Firewall:
        """Create a firewall rule for incoming traffic to this subnetwork. Other subnetworks are not affected."""
        return gcp.compute.Firewall(
            f"{name}-{role}",
            project=args.project,
            network=self.network,
            direction="INGRESS",
            priority=_ALLOW_PRIORITY if "allows" in rule else _DENY_PRIORITY,
            destination_ranges=[args.ip_range],
            **rule,
            opts=self.child(),
        )
