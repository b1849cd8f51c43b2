"""A component around a chart with one web server."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
from gpu_ci.args import Args, ComponentArgs, Integer
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.helm import HelmComponent
from gpu_ci.kubernetes.name_types import NamespaceName
from pydantic import Field

VERSION = "6.9.0"
DIGEST = f"sha256:{'a1' * 32}"


class ToyChartArgs(ComponentArgs):
    """The arguments of a toy chart."""

    namespace: NamespaceName = Field(default="toy", description="the namespace to create for the server")
    replicas: Integer = Field(default=1, ge=1, le=3, description="number of replicas, 1 to 3")


class ToyChart(HelmComponent):
    """A web server on nodes without GPUs.

    Creates: a namespace, and the Helm release of the server.
    Costs: only the capacity for its pods.
    Does not: open the server to the internet.
    Replaces on change of: the release and the namespace for namespace.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:ToyChart"
    ARGS: ClassVar[type[Args]] = ToyChartArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"replicas": 2}

    namespace: pulumi.Output[str]
    """Namespace of the server."""
    version: pulumi.Output[str]
    """Version of the chart, known once the server runs."""

    def __init__(self, name: str, args: ToyChartArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self.namespace = self.create_namespace(args.namespace)
        values = {"replicaCount": args.replicas, "affinity": gpu_nodes.off_gpu_nodes()}
        release = self.install("oci://ghcr.io/acme/toy", VERSION, self.namespace, values, digest=DIGEST)
        self.version = release.id.apply(lambda _: VERSION)
        self.register()
