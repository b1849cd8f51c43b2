"""The component GpuNamespace: a namespace for pods with GPUs, with a GPU quota and network policies."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import AfterValidator, Field

from ..args import Args, ComponentArgs, Input, Integer, SecretInput
from ..component import Component
from ..errors import invalid
from . import gpu_nodes, kueue_labels
from .kueue_labels import QueueName
from .name_types import EachNameOnce, EachOnce, GpuResource, NamespaceName, Registry, SecretName

_Network = IPv4Network | IPv6Network

# The ranges with the addresses that give credentials. 169.254.169.254 and fd00:ec2::254 give the credentials of an EC2
# instance (docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html). 169.254.170.23 and
# fd00:ec2::23 give the credentials of a pod's AWS role
# (docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html). Google also uses 169.254.169.254.
_CREDENTIALS = [ip_network(each) for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")]
# RFC 1918, RFC 6598 (which EKS also assigns to pods) and RFC 4193.
_PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
# Ranges that no public server has (RFC 6890, and RFC 7526 for 192.88.99.0/24). Networks of Google Cloud may use them
# (cloud.google.com/vpc/docs/subnets, "Valid IPv4 ranges"). A VPC of AWS may use 198.19.0.0/16 (docs.aws.amazon.com/vpc/
# latest/userguide/vpc-cidr-blocks.html).
_RESERVED = [
    ip_network(each)
    for each in (
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        "240.0.0.0/4",
    )
]
_NOT_PUBLIC = [*_PRIVATE, *_RESERVED]
# The default range of Services of a GKE cluster. Google owns it, and no public server has it
# (docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips; terraform-google-modules/
# terraform-google-kubernetes-engine#1949).
_GKE_SERVICES = ip_network("34.118.224.0/20")


def _private_range(value: str) -> str:
    try:
        network = ip_network(value)
    except ValueError:
        raise invalid(
            "is not a range of addresses, or does not start at its first address",
            "not-an-ip-range",
            hint="10.20.0.0/16",
        ) from None
    # Python also accepts a single address, a mask or a zone as a range. A NetworkPolicy accepts only the format of Go's
    # ParseCIDR (k8s.io/kubernetes v1.36.0, pkg/apis/networking/validation/validation.go, ValidateIPBlock).
    if not re.fullmatch(r"[0-9A-Fa-f:.]+/[0-9]+", value):
        raise invalid(
            "is not an address followed by / and the length of the prefix", "not-an-ip-range", hint="10.20.0.0/16"
        )
    if any(network.version == other.version and network.overlaps(other) for other in _CREDENTIALS):
        raise invalid(
            "contains addresses that give the machine's credentials",
            "range-of-credentials",
            safe_hint="use a range without these addresses",
        )
    if not any(_within(network, other) for other in _NOT_PUBLIC):
        raise invalid(
            "is not in a private address range",
            "public-range",
            safe_hint="remove it: pods already reach public addresses",
        )
    return value


def _within(inner: _Network, outer: _Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


PrivateRange = Annotated[str, AfterValidator(_private_range)]


def _dns_address(value: str) -> str:
    try:
        address = ip_address(value)
    except ValueError:
        raise invalid("is not an IP address", "not-an-ip-address", hint="169.254.20.10") from None
    if not re.fullmatch(r"[0-9A-Fa-f:.]+", value):
        raise invalid("has a zone, which a NetworkPolicy does not support", "not-an-ip-address", hint="169.254.20.10")
    if not any(address in other for other in (*_NOT_PUBLIC, *_CREDENTIALS, _GKE_SERVICES)):
        raise invalid(
            "is a public address: queries to a public server could carry data out of the cluster",
            "public-dns",
            safe_hint="use the address of a DNS server of the cluster or of its network",
        )
    return value


DnsAddress = Annotated[str, AfterValidator(_dns_address)]
CachedDns = Annotated[str, Field(pattern=r"^[0-9A-Fa-f:.]+$"), AfterValidator(lambda value: str(ip_address(value)))]

# The default address of NodeLocal DNSCache. It is on an interface of the node, so no pod selector can match it
# (kubernetes.io/docs/tasks/administer-cluster/nodelocaldns; kubernetes/kubernetes#70555). This address gives no
# credentials. Without the cache, no interface has the address.
_NODE_LOCAL_DNS = "169.254.20.10/32"


def closed() -> dict[str, Any]:
    """Return a policy that denies all traffic of every pod of the namespace. The other policies allow some traffic."""
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def to_dns(addresses: Iterable[str] = (), cached: Sequence[str] = ()) -> dict[str, Any]:
    """Return a policy that allows DNS queries to kube-system, to NodeLocal DNSCache and to these addresses.

    Queries to other servers could carry data out of the cluster. NodeLocal DNSCache also answers at the addresses
    `cached` of the cluster's DNS Service. The kernel does not track these queries, so the answers of the cache count
    as new traffic to the pod (kubernetes/kubernetes#98758).
    """
    servers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    ranges = dict.fromkeys([_NODE_LOCAL_DNS, *(str(ip_network(each)) for each in (*addresses, *cached))])
    policy = _egress([servers, *({"ipBlock": {"cidr": each}} for each in ranges)], [("UDP", 53), ("TCP", 53)])
    if not cached:
        return policy
    caches = [_NODE_LOCAL_DNS, *(str(ip_network(each)) for each in cached)]
    ingress = [{"from": [{"ipBlock": {"cidr": each}} for each in caches]}]
    return {**policy, "policyTypes": ["Egress", "Ingress"], "ingress": ingress}


def to_public_addresses(ports: list[int], private: list[str]) -> dict[str, Any]:
    """Return a policy that allows traffic to these ports of public addresses and of the given private ranges."""
    excluded = [*_PRIVATE, *_CREDENTIALS, *_RESERVED]
    public = [
        {"ipBlock": {"cidr": all_addresses, "except": [str(each) for each in excluded if each.version == version]}}
        for all_addresses, version in (("0.0.0.0/0", 4), ("::/0", 6))
    ]
    return _egress([*public, *({"ipBlock": {"cidr": each}} for each in private)], [("TCP", port) for port in ports])


def all_but_credentials() -> list[dict[str, Any]]:
    """Return the peers of a policy for every address but those that give credentials."""
    return [
        {"ipBlock": {"cidr": cidr, "except": [str(each) for each in _CREDENTIALS if each.version == version]}}
        for cidr, version in (("0.0.0.0/0", 4), ("::/0", 6))
    ]


def _egress(to: list[dict[str, Any]], ports: list[tuple[str, int]]) -> dict[str, Any]:
    rule = {"to": to, "ports": [{"protocol": protocol, "port": port} for protocol, port in ports]}
    return {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}


Port = Annotated[Integer, Field(ge=1, le=65535)]


class ImagePullSecret(Args):
    """A Secret with the login of one registry, for nodes that pull private images."""

    name: SecretName = Field(examples=["ghcr"], description="the name of the Secret, for use in runner settings")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="the user name of the login")
    password: SecretInput[Annotated[str, Field(min_length=1)]] = Field(
        description="the password or token, as a secret Output; a token that can only read packages is enough"
    )


class GpuNamespaceArgs(ComponentArgs):
    """The arguments of a namespace, and the limits of its pods."""

    namespace: NamespaceName | None = Field(
        default=None,
        examples=["gpu-ci"],
        description="the namespace's name in Kubernetes, at most 63 characters; by default the component's name",
    )
    # GPUs of the device plugin need no privileges, so `restricted` is enough for a runner. It is not enough for pods of
    # jobs, which GitHub's container hooks create, because their first container sets too few security fields
    # (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/index.ts, fs-init).
    pod_security: Literal["restricted", "baseline", "privileged"] = Field(
        default="restricted",
        description="the pod security level: restricted; baseline, which sudo in jobs and runners of kind kubernetes "
        "or kubernetes-novolume require; or privileged, for kind dind only",
    )
    gpus: Integer = Field(ge=1, examples=[4], description="the GPU quota of all pods together")
    gpu_resource: GpuResource = Field(
        default=gpu_nodes.RESOURCE,
        examples=[gpu_nodes.RESOURCE],
        description="the GPU resource of the quota, such as nvidia.com/mig-1g.10gb",
    )
    pods: Integer | None = Field(default=None, ge=1, description="maximum number of pods; by default no limit")
    cpus: Integer | None = Field(
        default=None,
        ge=1,
        description="maximum CPU request of all pods together; if set, pods must request CPU",
    )
    memory_gib: Integer | None = Field(
        default=None,
        ge=1,
        description="maximum memory request of all pods together in GiB; if set, pods must request memory",
    )
    egress_ports: Annotated[list[Port], EachOnce] = Field(
        default=[443],
        min_length=1,
        examples=[[443]],
        description="TCP ports that pods may reach on public addresses, such as 443 and 22",
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[],
        description="private address ranges that pods may reach on the same ports, such as a registry's endpoint or, "
        "for runners of kind kubernetes or kubernetes-novolume, the cluster's API server",
    )
    dns_addresses: Annotated[list[DnsAddress], EachOnce] = Field(
        default=[],
        examples=[["169.254.169.254"]],
        description="addresses to which pods may send DNS queries, in addition to kube-system and 169.254.20.10, such "
        "as 169.254.169.254 of Cloud DNS on GKE; only port 53 is open",
    )
    cached_dns: Input[list[CachedDns]] = Field(
        default=[],
        examples=[["34.118.224.10"]],
        description="addresses of the cluster's DNS Service at which NodeLocal DNSCache answers from the host network, "
        "as on GKE with Calico; queries to them and answers from them are allowed",
    )
    image_pull_secrets: Annotated[list[ImagePullSecret], EachNameOnce] = Field(
        default=[], description="logins of registries with private images; each becomes a Secret that runners can use"
    )
    queues: Annotated[list[QueueName], EachOnce] = Field(
        default=[],
        description="the ClusterQueues of Kueue in which pods of the namespace may wait; for each, a LocalQueue of the "
        "same name is created. The ClusterQueues must exist: dependsOn of this component names their Kueue",
    )


class GpuNamespace(Component):
    """A namespace that limits the GPUs of its pods, and their network access.

    Creates: the namespace with its pod security level, a GPU quota, and its default service account without a token. A
    Secret for each of imagePullSecrets, and a LocalQueue for each of queues. Three network policies, which deny all
    traffic except DNS of kube-system and NodeLocal DNSCache, and egressPorts of public addresses. The output of this
    component does not wait for the Secrets, so components that use them must set dependsOn. A changed password replaces
    only its Secret.
    Costs: nothing.
    Does not: enforce the policies. The cluster's network plugin enforces them. On EKS, its network policy agent must be
    enabled. The component cannot limit traffic to GitHub, because a NetworkPolicy supports addresses but no host
    names. All public addresses are therefore open on egressPorts. Private ranges are closed. 169.254.0.0/16 and
    fd00:ec2::/32 are closed, too, because machines and pods get their cloud credentials there. Port 53 of 169.254.20.10
    (NodeLocal DNSCache), of dnsAddresses and of cachedDns is open.
    Replaces on change of: everything, including every pod in the namespace, for namespace. Everything else is updated
    in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:GpuNamespace"
    ARGS: ClassVar[type[Args]] = GpuNamespaceArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"gpus": 4, "pods": 16}

    namespace: pulumi.Output[str]
    """Name of the namespace. The output waits for the quota, the network policies and the LocalQueues."""

    def __init__(self, name: str, args: GpuNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": args.namespace or name,
                "labels": {
                    "pod-security.kubernetes.io/enforce": args.pod_security,
                    "pod-security.kubernetes.io/warn": args.pod_security,
                    **({kueue_labels.NAMESPACE: "true"} if args.queues else {}),
                },
            },
            opts=self.child(),
        )
        self._namespace = namespace.metadata.name
        restrictions: list[pulumi.CustomResource] = [
            kubernetes.core.v1.ResourceQuota(
                f"{name}-quota", metadata=self._metadata("gpus"), spec={"hard": _quota_limits(args)}, opts=self.child()
            ),
            # Kubernetes itself creates this service account, so Pulumi can only patch it.
            kubernetes.core.v1.ServiceAccountPatch(
                f"{name}-default-account",
                metadata=self._metadata("default"),
                automount_service_account_token=False,
                opts=self.child(),
            ),
        ]
        policies: dict[str, Any] = {
            "deny": closed(),
            "dns": pulumi.Output.from_input(args.cached_dns).apply(partial(to_dns, args.dns_addresses)),
            "egress": to_public_addresses(args.egress_ports, args.private_ranges),
        }
        for role, spec in policies.items():
            restrictions.append(
                kubernetes.networking.v1.NetworkPolicy(
                    f"{name}-{role}", metadata=self._metadata(role), spec=spec, opts=self.child()
                )
            )
        queues = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-queue-{queue}",
                api_version=kueue_labels.API_VERSION,
                kind="LocalQueue",
                metadata=self._metadata(queue),
                spec={"clusterQueue": queue},
                opts=self.child(),
            )
            for queue in args.queues
        ]
        for login in args.image_pull_secrets:
            kubernetes.core.v1.Secret(
                f"{name}-pull-{login.name}",
                metadata=self._metadata(login.name),
                type="kubernetes.io/dockerconfigjson",
                string_data={
                    ".dockerconfigjson": pulumi.Output.from_input(login.password).apply(_docker_config(login))
                },
                opts=self.child(),
            )
        # In a preview, the ID of a new resource is unknown and its URN is known. With an ID, the preview of a new queue
        # would replace the scale sets of all pools in the namespace.
        awaited = [*(each.id for each in restrictions), *(each.urn for each in queues)]
        self.namespace = pulumi.Output.all(self._namespace, *awaited).apply(lambda values: str(values[0]))
        self.register()

    def _metadata(self, name: str) -> Any:
        return {"name": name, "namespace": self._namespace}


def _docker_config(login: ImagePullSecret) -> Callable[[str], str]:
    """Return a function that creates the content of the Secret from the password.

    Source: kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry.
    """

    def render(password: str) -> str:
        auth = base64.b64encode(f"{login.username}:{password}".encode()).decode()
        return json.dumps({"auths": {login.registry: {"auth": auth}}})

    return render


def _quota_limits(args: GpuNamespaceArgs) -> dict[str, str]:
    """Return the limits of the quota. For an extended resource such as nvidia.com/gpu, only requests can be limited.

    Source: kubernetes.io/docs/concepts/policy/resource-quotas, "Resource Quota For Extended Resources".
    """
    limits = {
        f"requests.{args.gpu_resource}": args.gpus,
        "pods": args.pods,
        "requests.cpu": args.cpus,
        "requests.memory": args.memory_gib and f"{args.memory_gib}Gi",
    }
    return {key: str(value) for key, value in limits.items() if value is not None}
