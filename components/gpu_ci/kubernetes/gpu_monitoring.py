"""The component GpuMonitoring: metrics of GPUs and of runner scale sets, and alerts, for a cluster's Prometheus."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from .. import versions
from ..args import Args, ComponentArgs
from ..monitoring.kubernetes import GPU_METRICS, rule_groups
from . import gpu_nodes
from .helm import HelmComponent
from .name_types import POD_SECURITY, Name, NamespaceName

_PORT = "metrics"
"""The name of the port with metrics, of dcgm-exporter (its chart) and of listeners (ARC)."""
# actions/actions-runner-controller@2ee6b3b: controllers/actions.github.com/resourcebuilder.go.
_LISTENERS = {"matchLabels": {"app.kubernetes.io/component": "runner-scale-set-listener"}}


class GpuMonitoringArgs(ComponentArgs):
    """The arguments of GpuMonitoring."""

    collector: Literal["prometheus-operator", "google-managed"] = Field(
        default="prometheus-operator",
        description="what collects the metrics: prometheus-operator (its definitions must exist, as with "
        "kube-prometheus-stack) or google-managed (Managed Service for Prometheus on GKE)",
    )
    namespace: NamespaceName = Field(
        default="gpu-monitoring",
        description="the namespace to create for dcgm-exporter, the monitors and the rules; with google-managed, none "
        "is created",
    )
    listener_namespace: NamespaceName = Field(
        default="arc-systems", description="the namespace of the listeners of scale sets: that of the ArcController"
    )
    monitor_labels: dict[str, Name] = Field(
        default={},
        examples=[{"release": "kube-prometheus-stack"}],
        description="labels of the monitors and rules, by which a Prometheus selects them",
    )
    docs_url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = Field(
        default=None,
        examples=["https://github.com/OWNER/gpu-ci/blob/COMMIT/docs"],
        description="the address of the folder docs of this project, for runbook_url of the alerts; by default the "
        "path docs/",
    )


class GpuMonitoring(HelmComponent):
    """Metrics of the GPUs and runner scale sets of a cluster, with alerts, for the Prometheus that the cluster has.

    Creates: monitors and rules. With the collector prometheus-operator, also a namespace, and the Helm release of
    NVIDIA's dcgm-exporter, with one pod on each GPU node.
    Costs: on each GPU node, the capacity for the pod, which requests 0.1 CPU and 128 MiB. The series of Managed Service
    for Prometheus cost by volume.
    Does not: install Prometheus, Alertmanager or the operator, or serve the metrics of listeners, for which the
    ArcController needs metrics: true. With the collector google-managed, it installs no exporter: the cluster needs the
    component DCGM in monitoringConfig. It has no metrics of profiling (DCGM_FI_PROF_*), with which profilers of jobs
    fail, and none of single pods.
    Replaces on change of: everything for namespace and for collector. Jobs are not affected.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:GpuMonitoring"
    ARGS: ClassVar[type[Args]] = GpuMonitoringArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"monitorLabels": {"release": "kube-prometheus-stack"}}

    namespace: pulumi.Output[str]
    """Namespace of the monitors."""

    def __init__(self, name: str, args: GpuMonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        groups = rule_groups(f"{(args.docs_url or 'docs').rstrip('/')}/")
        if args.collector == "google-managed":
            self.namespace = pulumi.Output.from_input(args.listener_namespace)
            # A PodMonitoring selects pods of its own namespace. ClusterRules see the series of all namespaces.
            spec = {"selector": _LISTENERS, "endpoints": [{"port": _PORT, "interval": "60s"}]}
            self._create(
                "listeners", "monitoring.googleapis.com/v1", "PodMonitoring", args, spec, args.listener_namespace
            )
            self._create("rules", "monitoring.googleapis.com/v1", "ClusterRules", args, {"groups": groups})
        else:
            # The exporter's chart mounts a folder of the node, which the level `baseline` does not allow.
            self.namespace = self.create_namespace(args.namespace, "privileged")
            self.install(
                "dcgm-exporter",
                versions.DCGM_EXPORTER_CHART,
                self.namespace,
                _values(),
                repository="https://nvidia.github.io/dcgm-exporter/helm-charts",
            )
            gpus = {"matchLabels": {"app.kubernetes.io/name": "dcgm-exporter"}}
            node = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
            pool = {"sourceLabels": ["__meta_kubernetes_node_label_gpu_ci_pool"], "targetLabel": "pool"}
            operator = "monitoring.coreos.com/v1"
            spec = {
                "selector": gpus,
                "attachMetadata": {"node": True},
                "podMetricsEndpoints": [{"port": _PORT, "interval": "30s", "relabelings": [node, pool]}],
            }
            self._create("gpus", operator, "PodMonitor", args, spec, self.namespace)
            spec = {
                "selector": _LISTENERS,
                "namespaceSelector": {"matchNames": [args.listener_namespace]},
                # The labels `name` and `namespace` of a listener's metrics are those of its scale set.
                "podMetricsEndpoints": [{"port": _PORT, "interval": "60s", "honorLabels": True}],
            }
            self._create("listeners", operator, "PodMonitor", args, spec, self.namespace)
            self._create("rules", operator, "PrometheusRule", args, {"groups": groups}, self.namespace)
        self.register()

    def _create(
        self,
        role: str,
        api_version: str,
        kind: str,
        args: GpuMonitoringArgs,
        spec: dict[str, Any],
        namespace: pulumi.Input[str] | None = None,
    ) -> None:
        name = f"{self.pulumi_resource_name}-{role}"
        kubernetes.apiextensions.CustomResource(
            name,
            api_version=api_version,
            kind=kind,
            metadata={
                "name": name,
                "labels": args.monitor_labels,
                **({} if namespace is None else {"namespace": namespace}),
            },
            spec=spec,
            opts=self.child(),
        )


def _values() -> dict[str, Any]:
    """Return the values of the chart of dcgm-exporter (NVIDIA/dcgm-exporter@d5e5f51: deployment)."""
    return {
        # Without a hostname, whose label has another case in later versions: the monitor adds the node. Without pods,
        # because only root reads the kubelet's socket.
        "arguments": ["-f", "/etc/dcgm-exporter/default-counters.csv", "--no-hostname", "--kubernetes=false"],
        "customMetrics": "\n".join(", ".join(each) for each in GPU_METRICS),
        "nodeSelector": {gpu_nodes.PRESENT_LABEL: "true"},
        "tolerations": [gpu_nodes.toleration(), gpu_nodes.toleration_of_unproven()],
        "podSecurityContext": POD_SECURITY,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "allowPrivilegeEscalation": False,
            # A process of this user has no capability. But on nodes whose container toolkit restricts GPUs, a container
            # sees all GPUs only if the capability is in its bounding set
            # (NVIDIA/nvidia-container-toolkit@d34b304: internal/config/image/privileged.go).
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        },
        # With the chart's limit of 512 MiB, pods were killed on nodes with eight GPUs.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "service": {"enable": False},
        # It needs the definitions of the operator, and a PodMonitor takes its place.
        "serviceMonitor": {"enabled": False},
    }
