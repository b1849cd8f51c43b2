"""The settings that clusters of every cloud have in a stack file, and the base classes of a kind of cluster.

A kind of cluster is one file in the folder of its cloud: a subclass of `Cluster` with a literal `CLUSTER_KIND`
(kinds/), and a subclass of `Connection`, which the program uses for the pools of the cluster.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol

import pulumi
from pydantic import Field

from ..args import Args, StrictBool
from ..errors import Problem
from ..secret_manager import StackSecret
from .arc_controller import ArcControllerArgs
from .gpu_namespace import PrivateRange
from .gpu_nodes import RESOURCE
from .kueue import KueueArgs
from .name_types import EachNameOnce, EachOnce, NamespaceName, Registry, SecretName
from .tekton import TektonArgs

# The API of credential plugins (docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html,
# docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl).
_CREDENTIALS = "client.authentication.k8s.io/v1beta1"


def kubeconfig_with_program(name: str, server: str, authority: str, program: Mapping[str, Any]) -> str:
    """Return the kubeconfig, which contains no credentials.

    Args:
        name: The name of the cluster, the user and the context.
        server: The address of the API server.
        authority: The certificate authority, in base64.
        program: The command, its args, and other fields of a credential plugin.
    """
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"exec": {"apiVersion": _CREDENTIALS, **program}}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )


class PoolEntry(Protocol):
    """A pool of the stack file. Its fields may be invalid."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def on_cluster(self) -> str:
        """The kind of cluster that the pool needs; empty if it needs none."""

    @property
    def choices(self) -> Mapping[str, Any]: ...


class RegistryLogin(Args):
    """The login of one registry, with the name of the secret that holds the password."""

    name: SecretName = Field(examples=["ghcr"], description="the name that runner.imagePullSecrets refers to")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="the user name")
    password: StackSecret = Field(
        examples=["projects/acme-ci/secrets/ghcr-token"],
        description="the secret with the password or token: projects/<project>/secrets/<name> in Secret Manager, or "
        "the ARN of a secret in AWS Secrets Manager",
    )


class Cluster(Args):
    """An existing Kubernetes cluster, and the settings that its pools share."""

    CLUSTER_KIND: ClassVar[str]
    """The `kind` of the cluster in a stack file."""
    EXAMPLE: ClassVar[dict[str, Any]]
    NAMESPACES: ClassVar[Mapping[str, str]] = {
        "": "runners",
        "controller": "controller",
        "kueue": "Kueue controller",
        "tekton": "Tekton operator",
    }
    """The components that have a namespace, by their field of the cluster. The empty name is the cluster itself."""

    BUCKETS: ClassVar[str] = ""
    """The scheme of the buckets to which pods of these clusters can get access, such as gs."""
    CREDENTIALS: ClassVar[Mapping[str, int]] = {}
    """The addresses at which pods of these clusters get credentials of the cloud, with their ports."""
    DNS_ADDRESSES: ClassVar[Sequence[str]] = ()
    """The addresses of DNS servers of these clusters, besides kube-system and NodeLocal DNSCache."""

    managed: StrictBool = Field(
        default=True,
        description="true if this stack creates the resources that all stacks on the cluster share, such as the "
        "controller; false if another stack creates them, with the same settings",
    )
    namespace: NamespaceName = Field(
        default="gpu-ci",
        description="the namespace that is created for the runners of its pools; each stack needs its own",
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[],
        description="private addresses that its runners may connect to, such as a registry's endpoint. Runners of "
        "kind kubernetes or kubernetes-novolume need the cluster's API server",
    )
    network_policies: StrictBool = Field(
        default=True,
        description="true if the cluster enforces network policies. Without privateRanges, the check of each pool "
        "verifies this. With false, jobs can connect to private addresses",
    )
    image_pull_secrets: Annotated[list[RegistryLogin], EachNameOnce] = Field(
        default=[], description="logins of registries with private images, each a Secret in the namespace"
    )
    controller: ArcControllerArgs = Field(
        default=ArcControllerArgs(), description="GitHub's Actions Runner Controller, which starts the runners"
    )
    kueue: KueueArgs | None = Field(
        default=None,
        examples=[{"queues": {"vision": {"gpus": 4, "cohort": "gpu"}}}],
        description="Kueue, with a quota of GPUs for each team that uses the cluster; by default none, and no runner "
        "waits for a quota",
    )
    tekton: TektonArgs | None = Field(
        default=None,
        examples=[{"retentionDays": 14}],
        description="Tekton, which the pipelines of gpu-ci:notebooks on the cluster need; by default none",
    )

    @classmethod
    def known_wiring(cls, described: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - some kinds need it
        """Return the arguments for pools that the stack file has. The fields of the cluster may be invalid."""
        return {}

    @classmethod
    def problems_with_pools(
        cls,
        path: str,  # noqa: ARG003 - some kinds need all three
        described: Mapping[str, Any],  # noqa: ARG003
        pools: Sequence[PoolEntry],  # noqa: ARG003
    ) -> list[Problem]:
        """Return the problems of settings of the cluster that do not work with its pools, and the reverse.

        Args:
            path: The path of the cluster in the stack file.
            described: The fields of the cluster. They may be invalid.
            pools: The pools on the cluster.
        """
        return []

    @classmethod
    def marks(cls, described: Mapping[str, Any], project: str) -> set[str]:  # noqa: ARG003 - some kinds need both
        """Return facts besides the name. Descriptions of one cluster share at least one. Fields may be invalid."""
        return set()

    def connect(self, name: str, path: str, file: str) -> Connection:
        """Look up the cluster.

        Args:
            name: The name of the cluster.
            path: The path of the cluster in the stack file, for error messages.
            file: The name of the stack file, for error messages.
        """
        raise NotImplementedError


def wrong_gpu_resource(pool: PoolEntry, owner: str) -> list[Problem]:
    """Report a resource name of GPUs that no node of `owner` offers. Pods would stay pending, without an error.

    An invalid name is reported elsewhere.
    """
    runner = pool.choices.get("runner")
    requested = runner.get("gpuResource") if isinstance(runner, Mapping) else None
    if not isinstance(requested, str) or not requested.startswith("nvidia.com/") or requested == RESOURCE:
        return []
    return [
        Problem(
            f"{pool.path}.runner.gpuResource",
            f"is on no node of the pool, so no runner would ever start: {owner} offers {RESOURCE}",
            repr(requested),
            RESOURCE,
            "remove it",
            rule="gpu-resource-not-offered",
        )
    ]


class Connection(ABC):
    """A cluster that was looked up. It has the arguments for its pools, and creates what they share.

    Pools are given as their names and arguments. The program itself creates the namespace and the controller.
    """

    kubeconfig: pulumi.Output[str]
    """The kubeconfig, which gets credentials from a program and contains none."""
    providers: Sequence[pulumi.ProviderResource]
    """The providers for the cloud account of the cluster. Without any, the stack's own settings apply."""
    cached_dns: pulumi.Input[Sequence[str]] = ()
    """The addresses of the DNS Service at which NodeLocal DNSCache answers from the host network."""

    def create_shared(
        self,
        short_name: str,  # noqa: ARG002 - some kinds need all three
        pools: Sequence[tuple[str, Any]],  # noqa: ARG002
        options: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """Create the resources that a cluster of this kind has once. Return those that checks of nodes wait for."""
        return []

    @abstractmethod
    def wiring(self, pools: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """Return the arguments that all pools of the cluster get."""

    def pool_wiring(self, args: Any) -> dict[str, Any]:  # noqa: ARG002 - some kinds need it
        """Return more arguments of one pool, by its other arguments."""
        return {}

    def grant_bucket(
        self,
        name: str,  # noqa: ARG002 - a kind without BUCKETS
        url: str,  # noqa: ARG002
        account: tuple[str, str],  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """Let pods of a service account read and write objects of a bucket. Return the resources of the grant.

        Args:
            name: The beginning of the names of the resources.
            url: The bucket and a folder of it, with the scheme BUCKETS.
            account: The namespace and the name of the service account of Kubernetes.
        """
        return []

    def pipeline_wiring(self) -> dict[str, Any]:
        """Return the arguments of image pipelines for nodes of the cluster."""
        return {}
