"""A network for runners: a subnetwork without public addresses, a way out, and nothing let in."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator, Field, field_validator

from ..args import Args, Input, StrictBool
from ..component import Component
from ..errors import did_you_mean, invalid
from . import ip_ranges, regions
from .resource_names import REGION, Network, Project

# cloud.google.com/iap/docs/using-tcp-forwarding, "Create a firewall rule": all addresses IAP forwards from.
_IAP = "35.235.240.0/20"
# Google's rules of a default network have 65534, and rules without a priority of their own 1000 (compute v1, Firewall).
_REFUSED, _LET_IN = 1000, 900

# Ports of the NAT that one machine gets, and so its connections to one destination at a time. By default it would have
# 64 for good, and package downloads of a job lose connections (gardener/gardener-extension-provider-gcp#6,
# openshift/installer#4273). Both are powers of two (discovery document compute v1, RouterNat). One address has 64,512
# ports, so every 15 machines that need all of theirs take one address more.
_NAT_PORTS = (64, 4096)


def network_region(value: str) -> str:
    """One that Google has."""
    if value not in regions.COMPUTE:
        raise invalid(
            "is no region of Google Cloud", hint=did_you_mean(value, regions.COMPUTE) or "such as us-central1"
        )
    return value


class NetworkChoices(Args):
    """What there is to choose of a network that is made for the runners of a region."""

    ip_range: str = Field(description="the subnetwork's range of private IPv4 addresses, such as 10.10.0.0/20")
    iap_ssh: StrictBool = Field(
        default=False, description="whether SSH is let in from Identity-Aware Proxy, which asks who it is"
    )
    flow_logs: StrictBool = Field(
        default=False, description="whether connections are logged, which Google bills by the GiB of logs"
    )

    @field_validator("ip_range")
    @classmethod
    def _ip_range(cls, value: str) -> str:
        return ip_ranges.private_range(value)


class RunnerNetworkArgs(NetworkChoices):
    """What a runner network is made of."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project"})

    region: Annotated[str, Field(pattern=REGION), AfterValidator(network_region)] = Field(
        description="the region of the runners, such as us-central1"
    )
    network: Input[Network] | None = Field(
        default=None,
        description="a network to make the subnetwork in, as projects/<project>/global/networks/<name>; by default one "
        "is made",
    )
    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project the network is in")


class RunnerNetwork(Component):
    """A subnetwork for runners that reach the internet and Google's APIs, and that nothing reaches.

    Creates: a VPC network unless one is given, a subnetwork with Private Google Access, a Cloud Router with NAT for
    that subnetwork, a firewall rule that refuses what comes in to it and, with iapSsh, one that lets in SSH through
    Identity-Aware Proxy.
    Costs: the NAT's addresses while it has any, by the hour, and the traffic through it; logs of connections that the
    NAT dropped, and flow logs, by the GiB.
    Does not: let machines talk to each other, or give any of them a public address.
    Replaces on change of: everything for region; the subnetwork, router and NAT for network; the subnetwork for an
    ipRange that does not contain the old one.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerNetwork"
    ARGS: ClassVar[type[Args]] = RunnerNetworkArgs
    KIND: ClassVar[str] = ""
    EXAMPLE: ClassVar[dict[str, Any]] = {"region": "us-central1", "ipRange": "10.10.0.0/20"}

    network: pulumi.Output[str]
    """The network, as a runner pool takes it."""
    subnetwork: pulumi.Output[str]
    """The subnetwork, as a runner pool takes it: known once its NAT and its firewall are there."""

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
            # Not all subnetworks: the network may be somebody's who has a NAT of their own.
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
            lambda made: str(made[0])
        )
        self.register()

    def _firewall(self, name: str, role: str, args: RunnerNetworkArgs, rule: dict[str, Any]) -> gcp.compute.Firewall:
        """A rule for what comes in to the subnetwork, whatever else is in the network."""
        return gcp.compute.Firewall(
            f"{name}-{role}",
            project=args.project,
            network=self.network,
            direction="INGRESS",
            priority=_LET_IN if "allows" in rule else _REFUSED,
            destination_ranges=[args.ip_range],
            **rule,
            opts=self.child(),
        )
