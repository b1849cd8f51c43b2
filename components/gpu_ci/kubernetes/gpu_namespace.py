"""A namespace for pods with GPUs: how many, with which rights, and what they reach."""

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
from . import gpu_nodes, network_rules
from .name_types import EachOnce, GpuResource, NamespaceName, Registry, SecretName
from .network_rules import PrivateRange

Port = Annotated[Integer, Field(ge=1, le=65535)]


class ImagePullSecret(Args):
    """A Secret with the login of one registry, for nodes that pull private images."""

    name: SecretName = Field(examples=["ghcr"], description="the Secret's name, as runners name it")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="who logs in")
    password: SecretInput[Annotated[str, Field(min_length=1)]] = Field(
        description="the password or token, as a secret Output; one that may only read packages will do"
    )


class GpuNamespaceArgs(Args):
    """What a namespace is, and how much its pods may have."""

    namespace: NamespaceName | None = Field(
        default=None,
        examples=["gpu-ci"],
        description="what Kubernetes calls it, at most 63 characters; by default the component's name",
    )
    # A GPU comes from the device plugin and is no part of the pod's own words, so a runner passes `restricted`. The
    # pods that container hooks make for jobs do not: their first container says too little of its rights
    # (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/index.ts, fs-init).
    pod_security: Literal["restricted", "baseline", "privileged"] = Field(
        default="restricted",
        description="what pods may ask for: restricted; baseline, which sudo in jobs and runners of kind kubernetes or "
        "kubernetes-novolume need; or privileged, for kind dind alone",
    )
    gpus: Integer = Field(ge=1, examples=[4], description="how many GPUs its pods may have together")
    gpu_resource: GpuResource = Field(
        default=gpu_nodes.RESOURCE,
        examples=[gpu_nodes.RESOURCE],
        description="which resource these are, such as nvidia.com/mig-1g.10gb",
    )
    pods: Integer | None = Field(default=None, ge=1, description="how many pods there may be; by default any number")
    cpus: Integer | None = Field(
        default=None,
        ge=1,
        description="how many CPUs its pods may ask for together; given, a pod that asks for none is refused",
    )
    memory_gib: Integer | None = Field(
        default=None,
        ge=1,
        description="how much memory its pods may ask for together, in GiB; given, a pod that asks for none is refused",
    )
    egress_ports: Annotated[list[Port], EachOnce] = Field(
        default=[443],
        min_length=1,
        examples=[[443]],
        description="TCP ports its pods reach on public addresses, such as 443 and 22",
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[],
        description="private addresses its pods reach on the same ports, such as a registry's endpoint or, for runners "
        "of kind kubernetes or kubernetes-novolume, the cluster's API server",
    )
    image_pull_secrets: list[ImagePullSecret] = Field(
        default=[], description="logins of registries with private images, each a Secret that runners can name"
    )


class GpuNamespace(Component):
    """A namespace whose pods have no more GPUs than they should, and reach nothing but what they must.

    Creates: the namespace with the level of pod security it enforces, a quota of GPUs, three network policies (nothing
    in or out; DNS of kube-system and NodeLocal DNSCache; egressPorts of public addresses), its default service account
    without a token, and a Secret for each of imagePullSecrets. What pulls with these depends on the component, as its
    namespace does not wait for them: a password that changes replaces its Secret and nothing else.
    Costs: nothing.
    Does not: enforce the policies; the cluster's network plugin does, on EKS only with its network policy agent on.
    It cannot name GitHub: a NetworkPolicy knows addresses and no host names, so all public addresses are open on these
    ports. Private ranges are not, nor are 169.254.0.0/16 and fd00:ec2::/32, where machines and pods get their cloud
    credentials, but for port 53 of 169.254.20.10 (NodeLocal DNSCache). A cache with another address is out of reach.
    Replaces on change of: everything, with every pod in it, for namespace. All else is updated in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:GpuNamespace"
    ARGS: ClassVar[type[Args]] = GpuNamespaceArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"gpus": 4, "pods": 16}

    namespace: pulumi.Output[str]
    """Its name, known once its quota and its policies are there."""

    def __init__(self, name: str, args: GpuNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        made = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": args.namespace or name,
                "labels": {
                    "pod-security.kubernetes.io/enforce": args.pod_security,
                    "pod-security.kubernetes.io/warn": args.pod_security,
                },
            },
            opts=self.child(),
        )
        self._within = made.metadata.name
        fence: list[pulumi.CustomResource] = [
            kubernetes.core.v1.ResourceQuota(
                f"{name}-quota", metadata=self._named("gpus"), spec={"hard": _hard(args)}, opts=self.child()
            ),
            # There is one before this is made, and a patch takes that over without a quarrel.
            kubernetes.core.v1.ServiceAccountPatch(
                f"{name}-default-account",
                metadata=self._named("default"),
                automount_service_account_token=False,
                opts=self.child(),
            ),
        ]
        policies: dict[str, Any] = {
            "deny": network_rules.closed(),
            "dns": network_rules.to_dns(),
            "egress": network_rules.to_the_world(args.egress_ports, args.private_ranges),
        }
        for role, spec in policies.items():
            fence.append(
                kubernetes.networking.v1.NetworkPolicy(
                    f"{name}-{role}", metadata=self._named(role), spec=spec, opts=self.child()
                )
            )
        for login in args.image_pull_secrets:
            kubernetes.core.v1.Secret(
                f"{name}-pull-{login.name}",
                metadata=self._named(login.name),
                type="kubernetes.io/dockerconfigjson",
                string_data={
                    ".dockerconfigjson": pulumi.Output.from_input(login.password).apply(_docker_config(login))
                },
                opts=self.child(),
            )
        self.namespace = pulumi.Output.all(self._within, *(each.id for each in fence)).apply(
            lambda found: str(found[0])
        )
        self.register()

    def _named(self, name: str) -> Any:
        return {"name": name, "namespace": self._within}


def _docker_config(login: ImagePullSecret) -> Callable[[str], str]:
    """The Secret's text, from its password (kubernetes.io/docs/tasks/configure-pod-container/
    pull-image-private-registry)."""

    def render(password: str) -> str:
        auth = base64.b64encode(f"{login.username}:{password}".encode()).decode()
        return json.dumps({"auths": {login.registry: {"auth": auth}}})

    return render


def _hard(args: GpuNamespaceArgs) -> dict[str, str]:
    """The quota's limits; of an extended resource only requests are counted (kubernetes.io/docs/concepts/policy/
    resource-quotas, "Resource Quota For Extended Resources")."""
    limits = {
        f"requests.{args.gpu_resource}": args.gpus,
        "pods": args.pods,
        "requests.cpu": args.cpus,
        "requests.memory": args.memory_gib and f"{args.memory_gib}Gi",
    }
    return {key: str(value) for key, value in limits.items() if value is not None}
