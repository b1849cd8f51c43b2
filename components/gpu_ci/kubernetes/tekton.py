"""The component Tekton: Tekton Pipelines and Tekton Triggers, by their operator.

The operator installs Tekton from one object, the TektonConfig `config`. It deletes ended runs by their age and number.

Sources: tektoncd/operator@1510682b (v0.81.1), pkg/apis/operator/v1alpha1 and charts/tekton-operator.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from .. import versions
from ..args import Args, ComponentArgs, Integer
from . import gpu_nodes
from .helm import HelmComponent, definitions_file
from .name_types import CONTAINER_SECURITY, POD_SECURITY, NamespaceName

CHART = "oci://ghcr.io/tektoncd/operator/charts/tekton-operator"
PIPELINES_NAMESPACE = "tekton-pipelines"
"""The namespace that the operator creates for Tekton's controllers, webhooks and interceptors."""
WAIT_FOR_READY = {"pulumi.com/waitFor": "condition=Ready"}
"""The annotation of objects for which Pulumi waits until their controller says that they work."""
_FILE = "tekton_definitions.json"
_DAY_SEC = 24 * 60 * 60


def definitions_version() -> str:
    """Return the version of the definitions' chart."""
    return str(definitions_file(_FILE)["version"])


def definitions() -> list[dict[str, Any]]:
    """Return the definitions of the operator, in the order of the chart."""
    return list(definitions_file(_FILE)["definitions"])


class TektonArgs(ComponentArgs):
    """The arguments of Tekton."""

    retention_days: Integer = Field(
        default=7, ge=1, le=30, description="days after which an ended run is deleted, with its logs, 1 to 30"
    )
    history_limit: Integer = Field(
        default=100, ge=1, le=100, description="the ended runs of each pipeline that stay, 1 to 100; older ones go"
    )
    namespace: NamespaceName = Field(
        default="tekton-operator",
        description="the namespace to create for the operator; Tekton itself is in tekton-pipelines",
    )


class Tekton(HelmComponent):
    """Tekton Pipelines and Tekton Triggers on a cluster, by their operator, without their other parts.

    Creates: a namespace, the custom resource definitions of the operator, its Helm release, and the TektonConfig. The
    operator creates the namespace tekton-pipelines with Tekton in it. If the definitions already exist, it takes them
    over. The component is complete when Tekton is ready.
    Costs: only the capacity for the pods of the operator and of Tekton, on nodes without GPUs.
    Does not: work on Kubernetes before 1.34, or next to another installation of Tekton. It installs no dashboard, no
    Tekton Chains and no Tekton Results. It does not remove the definitions, because that would delete Tekton objects of
    the whole cluster. The Kubernetes provider must use server-side apply, which is its default.
    Replaces on change of: the release and the namespace for namespace. Everything else is updated in place, the
    definitions first. Removing the component deletes Tekton, and with it the runs of every program of the cluster.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:Tekton"
    ARGS: ClassVar[type[Args]] = TektonArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"retentionDays": 14}

    namespace: pulumi.Output[str]
    """Namespace of Tekton's controllers. The output waits until Tekton is ready."""

    def __init__(self, name: str, args: TektonArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        # The operator exits without its definitions. Those of its chart would be deleted with the release.
        defined = self.define(definitions())
        release = self.install(
            CHART,
            versions.TEKTON_CHART,
            self.create_namespace(args.namespace),
            _values(),
            options={"depends_on": defined},
        )
        # The operator removes the finalizer of this object after it has removed Tekton. So the object is deleted before
        # the release.
        config = kubernetes.apiextensions.CustomResource(
            f"{name}-config",
            api_version="operator.tekton.dev/v1alpha1",
            kind="TektonConfig",
            metadata={"name": "config", "annotations": WAIT_FOR_READY},  # the operator accepts no other name
            spec=_spec(args),
            opts=self.child(depends_on=[release], delete_before_replace=True),
        )
        # In a preview, the URN of a new object is known, unlike its ID.
        self.namespace = config.urn.apply(lambda _: PIPELINES_NAMESPACE)
        self.register()


def _values() -> dict[str, Any]:
    return {
        "installCRDs": False,
        # Otherwise, the operator creates a TektonConfig of its own.
        "operator": {"autoInstallComponents": False},
        "affinity": gpu_nodes.off_gpu_nodes(),
        "podSecurityContext": {**POD_SECURITY, "runAsUser": 65532},
        "securityContext": CONTAINER_SECURITY,
    }


def _spec(args: TektonArgs) -> dict[str, Any]:
    return {
        "profile": "basic",  # with triggers, unlike lite
        "targetNamespace": PIPELINES_NAMESPACE,
        "pipeline": {
            # The affinity assistant ignores requests, so pods of one run would stay pending (tektoncd/pipeline#3049).
            "coschedule": "disabled",
            # With this, the containers of Tekton meet the pod security level restricted.
            "set-security-context": True,
        },
        "chain": {"disabled": True},
        "result": {"disabled": True, "is_external_db": False},
        # The operator refuses to become ready with both pruners (pkg/reconciler/shared/tektonconfig/tektonconfig.go).
        "pruner": {"disabled": True},
        "tektonpruner": {
            "disabled": False,
            "global-config": {
                "enforcedConfigLevel": "global",
                "ttlSecondsAfterFinished": args.retention_days * _DAY_SEC,
                "historyLimit": args.history_limit,
            },
        },
    }
