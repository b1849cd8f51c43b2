"""The component ArcController: GitHub's Actions Runner Controller (ARC), which starts runner pods for jobs.

A runner scale set is a group of identical runners (runner_scale_set.py). A job selects a scale set by its name in
runs-on. For each scale set, the controller starts a listener: a pod that gets jobs from GitHub.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pulumi
from pydantic import Field

from .. import versions
from ..args import Args, ComponentArgs, Input, Integer, StrictBool
from . import gpu_nodes
from .helm import HelmComponent, definitions_file
from .name_types import CONTAINER_SECURITY, POD_SECURITY, NamespaceName

_FILE = "arc_definitions.json"


def definitions_version() -> str:
    """Return the version of the definitions' chart."""
    return str(definitions_file(_FILE)["version"])


def definitions() -> list[dict[str, Any]]:
    """Return the definitions, in the order of the chart."""
    return list(definitions_file(_FILE)["definitions"])


CHARTS = "oci://ghcr.io/actions/actions-runner-controller-charts"
"""The address of both charts of ARC."""
_CHART = "gha-runner-scale-set-controller"


class ArcControllerArgs(ComponentArgs):
    """The arguments of the controller."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"watch_single_namespace"})

    namespace: NamespaceName = Field(
        default="arc-systems", description="the namespace to create for the controller and its listeners"
    )
    replicas: Integer = Field(
        default=1, ge=1, le=5, description="number of replicas, 1 to 5; one is active, and the others stand by"
    )
    # Later versions of the charts than 0.14 will change scale sets in place (actions/actions-runner-controller#4516).
    # Then remove this field.
    update_strategy: Literal["immediate", "eventual"] = Field(
        default="eventual",
        description="when to recreate a changed scale set: eventual (after its running jobs have ended) or immediate "
        "(at once, so that old and new runners hold GPUs at the same time)",
    )
    metrics: StrictBool = Field(
        default=False,
        description="whether the controller and its listeners serve metrics on port 8080, without authentication",
    )
    watch_single_namespace: Input[NamespaceName] | None = Field(
        default=None, description="the one namespace of its scale sets; by default all namespaces of the cluster"
    )


class ArcController(HelmComponent):
    """GitHub's Actions Runner Controller, which manages the runner scale sets of a cluster.

    Creates: a namespace, the custom resource definitions, and the Helm release of the controller. If the definitions
    already exist, it takes them over.
    Costs: only the capacity for its pod, and for one listener per scale set, on nodes without GPUs.
    Does not: remove the definitions, because that would delete every scale set of the cluster. The Kubernetes provider
    must use server-side apply, which is its default.
    Replaces on change of: the release and the namespace for namespace. Everything else is updated in place, the
    definitions first. A new minor version of the charts replaces every scale set.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:ArcController"
    ARGS: ClassVar[type[Args]] = ArcControllerArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"metrics": True}

    namespace: pulumi.Output[str]
    """Namespace of the controller and its listeners."""
    service_account_name: pulumi.Output[str]
    """Service account of the controller, for scale sets. It is known once the controller runs."""
    version: pulumi.Output[str]
    """Version of the controller's chart. The preview already knows it, to reject scale sets of another version."""

    def __init__(self, name: str, args: ArcControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self.namespace = self.create_namespace(args.namespace)
        # Deleting a definition would delete every scale set of the cluster, with its jobs.
        patches = self.define(definitions())
        release = self.install(
            f"{CHARTS}/{_CHART}",
            versions.ARC_CHARTS,
            self.namespace,
            _values(name, args),
            digest=versions.ARC_CHART_DIGESTS[_CHART],
            skip_crds=True,
            options={"depends_on": patches},
        )
        self.service_account_name = release.id.apply(lambda _: name)
        self.version = pulumi.Output.from_input(versions.ARC_CHARTS)
        self.register()


def _values(name: str, args: ArcControllerArgs) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "logLevel": "info",
        "logFormat": "json",
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
        "affinity": gpu_nodes.off_gpu_nodes(),
        "podSecurityContext": POD_SECURITY,
        # The image runs as user 65532, and the chart mounts the only folder to which it writes.
        "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
    }
