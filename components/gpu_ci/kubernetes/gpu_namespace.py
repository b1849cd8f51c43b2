"""The component GpuNamespace: a namespace for pods with GPUs, with a GPU quota and network policies."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from ..args import Args, Integer, SecretInput
from ..component import Component
from . import gpu_nodes, kueue_labels, network_rules
from .kueue_labels import QueueName
from .name_types import EachNameOnce, EachOnce, GpuResource, NamespaceName, Registry, SecretName
from .network_rules import DnsAddress, PrivateRange

Port = Annotated[Integer, Field(ge=1, le=65535)]


class ImagePullSecret(Args):
    """A Secret with the login of one registry, for nodes that pull private images."""

    name: SecretName = Field(examples=["ghcr"], description="the name of the Secret, for use in runner settings")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="the user name of the login")
    password: SecretInput[Annotated[str, Field(min_length=1)]] = Field(
        description="the password or token, as a secret Output; a token that can only read packages is enough"
    )


class GpuNamespaceArgs(Args):
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
    (NodeLocal DNSCache) and of dnsAddresses is open.
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
            "deny": network_rules.closed(),
            "dns": network_rules.to_dns(args.dns_addresses),
            "egress": network_rules.to_public_addresses(args.egress_ports, args.private_ranges),
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
