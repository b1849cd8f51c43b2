"""The component Kueue: quotas of GPUs for the teams that share a cluster.

A ClusterQueue has the quota of one team. ClusterQueues of one cohort lend each other the quota that they do not use. A
LocalQueue connects a namespace with a ClusterQueue (gpu_namespace.py). Kueue adds a scheduling gate to each pod that
names a LocalQueue, and removes the gate when the quota allows the pod's GPUs.

Sources: kubernetes-sigs/kueue@8eab687 (v0.19.2), pkg/controller/jobs/pod and apis/config/v1beta2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field, model_validator

from .. import versions
from ..args import Args, ComponentArgs, Integer
from ..errors import at_path, invalid, raise_problems
from . import gpu_nodes
from .helm import HelmComponent
from .kueue_labels import API_VERSION, NAMESPACE_SELECTOR, WEBHOOK_PORT, QueueName
from .name_types import Name, NamespaceName

CHART = "oci://registry.k8s.io/kueue/charts/kueue"
FLAVOR = "gpu-ci"
"""The ResourceFlavor of all GPUs of a cluster. ClusterQueues lend quota only of the same flavor."""

# The resources of pods without a quota. Kueue admits no pod that requests a resource without a quota, except these
# (apis/config/v1beta2/configuration_types.go, QuotaCheckBlockUndeclared).
_WITHOUT_QUOTA = ["cpu", "memory", "ephemeral-storage"]


class ClusterQueue(Args):
    """The quota of one team."""

    cohort: Name | None = Field(
        default=None,
        examples=["gpu"],
        description="queues of the same cohort borrow the GPUs that other queues of it do not use; by default none",
    )
    gpus: Integer = Field(
        ge=0,
        le=10000,
        examples=[4],
        description="the nominal quota: the GPUs that runners of the queue can always use at the same time",
    )
    borrowing_limit: Integer | None = Field(
        default=None,
        ge=0,
        le=10000,
        description="the most GPUs that the queue borrows from its cohort; by default no limit",
    )
    lending_limit: Integer | None = Field(
        default=None,
        ge=0,
        le=10000,
        description="the most GPUs of its own quota that the queue lends to its cohort; by default all of them. A job "
        "is never stopped, so lent GPUs return when the job that borrowed them has ended",
    )

    # Kueue's webhook has the same rules for the limits (pkg/webhooks/clusterqueue_webhook.go, validateLimit and
    # validateLendingLimit). They are checked only if all fields are valid: a misspelt cohort is one problem.
    @model_validator(mode="after")
    def _limits(self) -> Self:
        limits = {"borrowing_limit": self.borrowing_limit, "lending_limit": self.lending_limit}
        found = []
        if self.cohort is None:
            no_effect = invalid(
                "has no effect, and Kueue rejects it: the queue is in no cohort",
                "limit-without-cohort",
                safe_hint="set the cohort, or remove it",
            )
            found = [at_path(no_effect, value, field) for field, value in limits.items() if value is not None]
            if not found and self.gpus == 0:
                no_runner = invalid(
                    "admits no runner: without a cohort, the queue cannot borrow GPUs",
                    "queue-without-gpus",
                    safe_hint="set gpus: 1 or more, or a cohort",
                )
                found = [at_path(no_runner, 0, "gpus")]
        elif self.lending_limit is not None and self.lending_limit > self.gpus:
            too_large = invalid(
                f"is more than gpus, which is {self.gpus}", "lends-too-much", hint=f"lendingLimit: {self.gpus}, or less"
            )
            found = [at_path(too_large, self.lending_limit, "lending_limit")]
        raise_problems(found)
        return self


class KueueArgs(ComponentArgs):
    """The arguments of Kueue, with the quota of each team."""

    queues: dict[QueueName, ClusterQueue] = Field(
        min_length=1,
        examples=[{"vision": {"gpus": 4, "cohort": "gpu"}, "speech": {"gpus": 2, "cohort": "gpu"}}],
        description="the ClusterQueues by their names, one for each team; a name is unique in the cluster",
    )
    namespace: NamespaceName = Field(
        default="kueue-system", examples=["kueue-system"], description="the namespace to create for Kueue"
    )
    replicas: Integer = Field(
        default=1,
        ge=1,
        le=5,
        description="number of replicas, 1 to 5; one admits pods, and all of them answer the webhook. While none runs, "
        "no pod of the runners' namespaces can be created",
    )

    def most_gpus(self, queue: str) -> int:
        """Return the most GPUs that runners of a queue can use at the same time, with all that the queue can borrow."""
        own = self.queues[queue]
        if own.cohort is None:
            return own.gpus
        lent = sum(
            other.gpus if other.lending_limit is None else other.lending_limit
            for name, other in self.queues.items()
            if name != queue and other.cohort == own.cohort
        )
        return own.gpus + (lent if own.borrowing_limit is None else min(lent, own.borrowing_limit))


class Kueue(HelmComponent):
    """Kueue, with a quota of GPUs for each team. Runners beyond the quota of their queue wait.

    Creates: a namespace, the Helm release of Kueue with its custom resource definitions, a ResourceFlavor, and a
    ClusterQueue for each team. Only pods with the label kueue.x-k8s.io/queue-name in namespaces with the label
    gpu-ci-kueue are queued. Kueue counts their GPUs, and ignores CPUs, memory and disk.
    Costs: only the capacity for its pod, which requests half a CPU and 512 MiB, on a node without GPUs.
    Does not: stop a running job. If a team has lent GPUs, its own runners wait until the jobs that use them have ended.
    It gives no team nodes: a pool has its own limit. GPUs of smoke checks are not counted.
    Replaces on change of: the release and the namespace for namespace. Quotas, cohorts and limits are updated in place,
    and jobs that already run keep their GPUs. Removing the component deletes Kueue's
    definitions, and with them every queue of the cluster, also those of other programs.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:Kueue"
    ARGS: ClassVar[type[Args]] = KueueArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "queues": {
            "vision": {"gpus": 4, "cohort": "gpu"},
            "speech": {"gpus": 2, "cohort": "gpu", "borrowingLimit": 2},
        }
    }

    namespace: pulumi.Output[str]
    """Namespace of Kueue. The output waits for the ClusterQueues."""

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        namespace = self.create_namespace(args.namespace)
        release = self.install(CHART, versions.KUEUE_CHART, namespace, _values(args))
        # Kueue sets finalizers on queues and flavors, and removes them when nothing uses the object. So these objects
        # must be deleted while Kueue still runs.
        flavor = kubernetes.apiextensions.CustomResource(
            f"{name}-flavor",
            api_version=API_VERSION,
            kind="ResourceFlavor",
            metadata={"name": FLAVOR},
            spec={
                "nodeLabels": {gpu_nodes.PRESENT_LABEL: "true"},
                "tolerations": [gpu_nodes.toleration()],
            },
            opts=self.child(depends_on=[release]),
        )
        queues = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{queue}",
                api_version=API_VERSION,
                kind="ClusterQueue",
                metadata={"name": queue},
                spec=_cluster_queue(choices),
                opts=self.child(depends_on=[release, flavor]),
            )
            for queue, choices in args.queues.items()
        ]
        # In a preview, the URN of a new queue is known, unlike its ID.
        self.namespace = pulumi.Output.all(namespace, *(queue.urn for queue in queues)).apply(
            lambda values: str(values[0])
        )
        self.register()


def _cluster_queue(choices: ClusterQueue) -> dict[str, Any]:
    limits = {
        "nominalQuota": choices.gpus,
        "borrowingLimit": choices.borrowing_limit,
        "lendingLimit": choices.lending_limit,
    }
    # Kueue writes quantities as texts, and a number would then be a difference at the next refresh.
    resource = {"name": gpu_nodes.RESOURCE, **{key: str(gpus) for key, gpus in limits.items() if gpus is not None}}
    return {
        **({"cohortName": choices.cohort} if choices.cohort else {}),
        "namespaceSelector": NAMESPACE_SELECTOR,
        "resourceGroups": [
            {
                "coveredResources": [gpu_nodes.RESOURCE],
                "flavors": [{"name": FLAVOR, "resources": [resource]}],
            }
        ],
        # Preemption deletes the pod of a runner, which cancels its job.
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
    }


def _values(args: KueueArgs) -> dict[str, Any]:
    return {
        "controllerManager": {
            "replicas": args.replicas,
            "manager": {
                "image": {
                    "repository": versions.KUEUE_IMAGE,
                    "tag": f"v{versions.KUEUE_CHART}",
                    "pullPolicy": "IfNotPresent",
                }
            },
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(_configuration(), indent=2, sort_keys=True)},
    }


def _configuration() -> Mapping[str, Any]:
    """Return Kueue's configuration, which replaces the one of the chart. The ports are those of the chart's probes."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "manageJobsWithoutQueueName": False,
        # Without the integration of Jobs, smoke checks are not suspended.
        "integrations": {"frameworks": ["pod"]},
        # By default, the webhook sees the pods of all namespaces, and while Kueue is down, no pod could be created.
        "managedJobsNamespaceSelector": NAMESPACE_SELECTOR,
        "resources": {"excludeResourcePrefixes": _WITHOUT_QUOTA},
        # Since v0.19, Kueue deletes a pod that is not ready 30 minutes after its admission. A runner may wait longer
        # for a node, and ARC gives up a runner whose pod failed five times (CHANGELOG/CHANGELOG-0.19.md, #11855).
        "featureGates": {"DisableWaitForPodsReady": True},
    }
