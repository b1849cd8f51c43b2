"""Explains a failed smoke check of nodes with the events of its pods, such as FailedScheduling.

Pulumi does not report these events. At the deadline of the Job, Kubernetes deletes the pods, but keeps their events for
an hour (kube-apiserver, --event-ttl).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MOST_LINES = 3
_MOST_CHARACTERS = 300
# Reasons of events, by the stage of a pod (k8s.io/kubernetes v1.36.0, pkg/kubelet/events/event.go and
# pkg/controller/job; kubernetes/autoscaler, cluster-autoscaler/processors/status/eventing_scale_up_processor.go).
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
    """Return at most three lines about the events of a Job and its pods.

    Events of running pods come first, then events of starting pods, then events of pods that wait for a node.
    """
    latest: dict[str, str] = {}
    of_job = [event for event in sorted(events, key=_time) if _name(event) == job or _name(event).startswith(f"{job}-")]
    pods_with_node = {_name(event) for event in of_job if event.get("reason") == "Scheduled"}
    for event in of_job:
        reason = str(event.get("reason"))
        # If the pod got a node later, its events about waiting are skipped. Another pod of the Job may still wait.
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
    """Return the time of the last occurrence as text. Times in this format (RFC 3339, UTC) can be sorted as text."""
    series = event.get("series") or {}
    found = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(found or (event.get("metadata") or {}).get("creationTimestamp") or "")
