"""Explains a failed check of nodes from the events of its pods.

Kubernetes deletes the pods of a Job after its deadline. Their events remain for an hour (kube-apiserver, --event-ttl),
and Pulumi reports none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MOST_LINES = 3
_MOST_CHARACTERS = 300
# Reasons of events by the stage of a pod, the latest first: k8s.io/kubernetes v1.36.0, pkg/kubelet/events/event.go and
# pkg/controller/job; kubernetes/autoscaler, cluster-autoscaler/processors/status/eventing_scale_up_processor.go.
_RUNNING = ("NodeNotReady", "Evicted", "OOMKilling")
_STARTING = (
    "FailedToRetrieveImagePullSecret",
    "Failed",
    "FailedMount",
    "FailedCreatePodSandBox",
    "UnexpectedAdmissionError",
)
_WAITING = ("NotTriggerScaleUp", "TriggeredScaleUp", "FailedScheduling", "FailedCreate")
# Reasons of events that Cluster Autoscaler or Karpenter writes for a pending pod.
_BY_AUTOSCALER = ("NotTriggerScaleUp", "TriggeredScaleUp", "Nominated")
_NO_AUTOSCALER = (
    "no event TriggeredScaleUp or NotTriggerScaleUp: no Cluster Autoscaler has seen the pod, and without an "
    "autoscaler a node group of size 0 starts no node"
)


def causes(events: Iterable[Mapping[str, Any]], job: str) -> list[str]:
    """Return at most three lines about the events of a Job and its pods, the latest stage of the pods first."""
    latest: dict[str, str] = {}
    of_job = [event for event in sorted(events, key=_time) if _name(event) == job or _name(event).startswith(f"{job}-")]
    pods_with_node = {_name(event) for event in of_job if event.get("reason") == "Scheduled"}
    for event in of_job:
        reason = str(event.get("reason"))
        # A reason to wait no longer applies once the pod has a node. Another pod of the Job may still wait.
        if reason not in _WAITING or _name(event) not in pods_with_node:
            latest[reason] = " ".join(str(event.get("message") or "").split())[:_MOST_CHARACTERS]
    autoscaler_runs = any(event.get("reason") in _BY_AUTOSCALER for event in of_job)
    no_autoscaler = [_NO_AUTOSCALER] if "FailedScheduling" in latest and not autoscaler_runs else []
    return [*_lines(latest, [*_RUNNING, *_STARTING, *_WAITING]), *no_autoscaler][:_MOST_LINES]


def _name(event: Mapping[str, Any]) -> str:
    return str((event.get("involvedObject") or {}).get("name"))


def _lines(latest: Mapping[str, str], reasons: Sequence[str]) -> list[str]:
    return [f"{reason}: {latest[reason]}" for reason in reasons if reason in latest][:_MOST_LINES]


def _time(event: Mapping[str, Any]) -> str:
    """Return the time of the last occurrence. RFC 3339 times in UTC sort as text."""
    series = event.get("series") or {}
    found = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(found or (event.get("metadata") or {}).get("creationTimestamp") or "")
