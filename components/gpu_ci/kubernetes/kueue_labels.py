"""The API of Kueue, the labels by which Kueue finds the pods that it queues, and the type of a queue's name."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from ..errors import invalid
from .name_types import Name

API_VERSION = "kueue.x-k8s.io/v1beta2"

QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of a pod that waits in a LocalQueue. Kueue leaves pods without the label alone.

Source: kubernetes-sigs/kueue@8eab687: pkg/controller/constants/constants.go.
"""

PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
"""The label with the pod's WorkloadPriorityClass, by which Kueue sorts a queue (constants.go, too)."""

WEBHOOK_PORT = 9443
"""The port of Kueue's pod to which the control plane sends the requests of its webhooks."""

NAMESPACE = "gpu-ci-kueue"
"""The label of namespaces whose pods Kueue's webhook sees. In other namespaces, pods start even if Kueue is down."""
NAMESPACE_SELECTOR = {"matchLabels": {NAMESPACE: "true"}}


def _not_default(value: str) -> str:
    # Kueue puts every pod of the namespace without a queue in a LocalQueue of this name, also the pods of smoke checks
    # (the same repository: pkg/controller/jobs/pod/pod_webhook.go, DefaultLocalQueueExist).
    if value == "default":
        raise invalid(
            "is the name with which Kueue would queue every pod of the namespace, also smoke checks",
            "reserved-name",
            safe_hint="use the name of a team",
        )
    return value


QueueName = Annotated[Name, AfterValidator(_not_default)]
