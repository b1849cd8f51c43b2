"""GitHub's Actions Runner Controller: what starts runner pods for the jobs of scale sets."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from .. import versions
from ..args import Args, Input, Integer, StrictBool
from ..component import Component
from . import arc_definitions, gpu_nodes
from .name_types import CONTAINER_SECURITY, POD_SECURITY, NamespaceName

CHARTS = "oci://ghcr.io/actions/actions-runner-controller-charts"


class ArcControllerArgs(Args):
    """How the controller runs."""

    DECIDED: ClassVar[dict[str, str]] = {
        "version": "it is the package's, because scale sets must be of the same minor version",
        "nodeSelector": "the controller stays off GPU nodes",
        "tolerations": "the controller stays off GPU nodes",
        "serviceAccount": "it is named after the component, so that scale sets can name it",
    }
    WIRING: ClassVar[frozenset[str]] = frozenset({"watch_single_namespace"})

    namespace: NamespaceName = Field(
        default="arc-systems", description="the namespace that is made for it and for its listeners"
    )
    replicas: Integer = Field(
        default=1, ge=1, le=5, description="how many of it there are, 1 to 5; one works, and the others stand by"
    )
    log_level: Literal["debug", "info", "warn", "error"] = Field(default="info", description="what it logs at least")
    log_format: Literal["text", "json"] = Field(default="json", description="the form of its log")
    # The field goes when the charts pass 0.14: the controller then changes scale sets in place
    # (actions/actions-runner-controller#4516).
    update_strategy: Literal["immediate", "eventual"] = Field(
        default="eventual",
        description="when a changed scale set is made anew: eventual (once its running jobs have ended) or immediate "
        "(at once, so that old and new runners hold GPUs together)",
    )
    metrics: StrictBool = Field(
        default=False, description="whether it and its listeners serve metrics on port 8080, to whoever reaches them"
    )
    watch_single_namespace: Input[NamespaceName] | None = Field(
        default=None, description="the one namespace of its scale sets; by default it looks after all of the cluster's"
    )


class ArcController(Component):
    """GitHub's Actions Runner Controller, which looks after the runner scale sets of a cluster.

    Creates: a namespace, the Helm release of the controller, and before it its custom resource definitions, which it
    takes over where the cluster has them.
    Costs: nothing beyond the room of its pod, and of one listener for each scale set, on nodes without GPUs.
    Does not: remove the definitions, as every scale set of the cluster would go with them. It needs a provider with
    server-side apply, which is the default.
    Replaces on change of: the release and the namespace for namespace. All else is updated in place, the definitions
    first. A new minor version of the charts replaces every scale set.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:ArcController"
    ARGS: ClassVar[type[Args]] = ArcControllerArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"metrics": True}

    namespace: pulumi.Output[str]
    """The namespace it and its listeners run in."""
    service_account_name: pulumi.Output[str]
    """What it runs as, for scale sets; known once it runs, so that they wait for it."""
    version: pulumi.Output[str]
    """The version of its chart, known in the preview already, so that no scale set of another comes to it."""

    def __init__(self, name: str, args: ArcControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        made = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": args.namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
            opts=self.child(),
        )
        # Helm installs the definitions of a chart with its first version and never touches them again
        # (helm.sh/docs/chart_best_practices/custom_resource_definitions). As patches they also take over what Helm or
        # kubectl installed, where a definition that is there already would be refused (pulumi-kubernetes 4.29.0).
        definitions = [
            kubernetes.apiextensions.v1.CustomResourceDefinitionPatch(
                f"{name}-{one['spec']['names']['plural']}",
                metadata={
                    "name": one["metadata"]["name"],
                    "annotations": {**one["metadata"]["annotations"], "pulumi.com/patchForce": "true"},
                },
                spec=one["spec"],
                # Without its definition every set of the cluster would be gone, whoever made it, and its jobs with it.
                opts=self.child(retain_on_delete=True),
            )
            for one in arc_definitions.definitions()
        ]
        release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=name,
            namespace=made.metadata.name,
            chart=f"{CHARTS}/gha-runner-scale-set-controller",
            version=versions.ARC_CHARTS,
            values=_values(name, args),
            skip_crds=True,
            # Its cluster roles are named after the release alone, and two controllers would both act on every set.
            opts=self.child(depends_on=definitions, delete_before_replace=True),
        )
        self.namespace = made.metadata.name
        self.service_account_name = release.id.apply(lambda _: name)
        self.version = pulumi.Output.from_input(versions.ARC_CHARTS)
        self.register()


def _values(name: str, args: ArcControllerArgs) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "logLevel": args.log_level,
        "logFormat": args.log_format,
        "updateStrategy": args.update_strategy,
    }
    if args.watch_single_namespace is not None:
        flags["watchSingleNamespace"] = args.watch_single_namespace
    addresses = {"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics"}
    return {
        "replicaCount": args.replicas,
        "serviceAccount": {"create": True, "name": name},
        "flags": flags,
        **({"metrics": addresses} if args.metrics else {}),
        "affinity": gpu_nodes.elsewhere(),
        "podSecurityContext": POD_SECURITY,
        # Its image runs as 65532, and the chart mounts the one folder it writes to.
        "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
    }
