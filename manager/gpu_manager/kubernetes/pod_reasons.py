"""Finds the reason why a runner's pod does not run yet, from the pod and its events."""

from __future__ import annotations

from collections.abc import Sequence

from .model import Explanation, Object, name_of, namespace_of, status_of

# Reasons of waiting containers that do not resolve by themselves (k8s.io/kubernetes v1.36.0:
# pkg/kubelet/images/types.go and pkg/kubelet/container/sync_result.go).
_STUCK = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "CrashLoopBackOff",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)
# Reasons of the Cluster Autoscaler (kubernetes/autoscaler: cluster-autoscaler/processors/status) and of Karpenter
# (kubernetes-sigs/karpenter: pkg/controllers/provisioning/scheduling/events.go).
_NODE_STARTS = ("TriggeredScaleUp", "Nominated")
_NO_NODE = "NotTriggerScaleUp"
# kubernetes-sigs/kueue@8eab687: pkg/controller/jobs/pod/constants/constants.go, pkg/controller/constants/constants.go.
_QUOTA_GATE, _QUEUE_LABEL = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/queue-name"


def of_pod(pod: Object, events: Sequence[Object]) -> Explanation:
    """Return the reason why a pod without a job waits."""
    name, messages = name_of(pod), _latest(pod, events)
    if stuck := _stuck_container(pod):
        return Explanation(
            f"pod {name}: {stuck}", "refused", f"kubectl describe pod --namespace {namespace_of(pod)} {name}"
        )
    if _QUOTA_GATE in [each.get("name") for each in (pod.get("spec") or {}).get("schedulingGates") or ()]:
        queue = (pod["metadata"].get("labels") or {}).get(_QUEUE_LABEL, "")
        return Explanation(
            f"pod {name} waits for GPUs of the queue {queue} of Kueue",
            "over-quota",
            "wait for runners of the queue or of its cohort, or raise gpus of the queue; "
            f"kubectl describe workloads --namespace {namespace_of(pod)} says how many GPUs are missing",
        )
    if node := (pod.get("spec") or {}).get("nodeName"):
        return Explanation(f"its runner starts in pod {name} on node {node}", machine=name)
    # Only the latest answer counts: after "no node" a node group can get room, and after "a node starts" that node can
    # fail.
    answer = next((reason for reason in reversed(messages) if reason in (_NO_NODE, *_NODE_STARTS)), "")
    if answer == _NO_NODE:
        detail = f"no node for pod {name}, and the autoscaler starts none: {messages[answer]}"
        return Explanation(detail, "no-capacity", "raise the node group's max, or check the pool's labels and taint")
    if answer:
        return Explanation(f"a node starts for pod {name}: {messages[answer]}", machine=name)
    message = messages.get("FailedScheduling") or _unschedulable(pod)
    if not message:
        return Explanation(f"pod {name} is new, and the scheduler has not processed it yet", machine=name)
    detail = f"no node for pod {name}, and no autoscaler has reacted: {message}"
    return Explanation(detail, "no-capacity", "check that an autoscaler runs (gpu-ci doctor) and may start such nodes")


def _stuck_container(pod: Object) -> str:
    status = status_of(pod)
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return ""


def _unschedulable(pod: Object) -> str:
    for each in status_of(pod).get("conditions", ()):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _latest(pod: Object, events: Sequence[Object]) -> dict[str, str]:
    """Return the latest message of each reason, in the order of their last occurrence."""
    found: dict[str, str] = {}
    for each in sorted((each for each in events if _concerns(each, pod)), key=_time):
        reason = str(each.get("reason"))
        # A dictionary keeps the position of an existing key.
        found.pop(reason, None)
        found[reason] = " ".join(str(each.get("message") or "").split())
    return found


def _concerns(event: Object, pod: Object) -> bool:
    about = event.get("involvedObject") or {}
    return (about.get("kind"), about.get("namespace"), about.get("name")) == ("Pod", namespace_of(pod), name_of(pod))


def _time(event: Object) -> str:
    """Return the event's time. Times of RFC 3339 in UTC sort as texts."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
