"""Finds the reason why a job that names a runner scale set has no runner, from the cluster's objects alone.

The objects are as kubectl prints them. Names of annotations, labels and phases:
actions/actions-runner-controller@9bb16ae, apis/actions.github.com/v1alpha1 and controllers/actions.github.com.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_ci.kubernetes.gpu_nodes import FAILED_KEY, UNPROVEN_KEY

Object = dict[str, Any]

_REGISTERED = "runner-scale-set-id"
_SET_LABEL = "actions.github.com/scale-set-name"
# GitHub cancels a job that waited for a runner for 24 hours (docs.github.com, "Actions limits").
_OLDEST_JOB_SEC = 24 * 3600.0
_CONTROLLER_LOG = "kubectl logs --all-namespaces --selector app.kubernetes.io/part-of=gha-rs-controller"
# Reasons of waiting containers that resolve by themselves (k8s.io/kubernetes v1.36.0, pkg/kubelet/kubelet_pods.go).
_STARTS = ("ContainerCreating", "PodInitializing")
# Reasons of the Cluster Autoscaler (kubernetes/autoscaler: cluster-autoscaler/processors/status) and of Karpenter
# (kubernetes-sigs/karpenter: pkg/controllers/provisioning/scheduling/events.go).
_NODE_STARTS = ("TriggeredScaleUp", "Nominated")
_NO_NODE = "NotTriggerScaleUp"
# The annotation with the reason of a failed check (gpu_smoke.nodes.decision).
_FAILURE = "gpu-ci-failure"
# kubernetes-sigs/kueue@8eab687: pkg/controller/jobs/pod/constants/constants.go, pkg/controller/constants/constants.go.
_QUOTA_GATE, _QUEUE_LABEL = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class WaitingJob:
    """The known facts of the job. Without an answer from GitHub only its runs-on is known."""

    runs_on: tuple[str, ...]
    run_id: int
    job_id: int | None = None
    repository: str = ""
    name: str = ""
    workflow: str = ""
    status: str = "queued"
    """GitHub's status."""
    conclusion: str = ""
    runner_name: str = ""
    age_sec: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """The scale sets of a cluster, and the objects that belong to one of them."""

    scale_sets: list[Object]
    """The AutoscalingRunnerSets of all namespaces."""
    listeners: list[Object] = field(default_factory=list)
    """The AutoscalingListeners of all namespaces."""
    runners: list[Object] = field(default_factory=list)
    """The EphemeralRunners of the scale set's namespace."""
    pods: list[Object] = field(default_factory=list)
    """Pods of that namespace and of the listener's namespace."""
    quotas: list[Object] = field(default_factory=list)
    """The ResourceQuotas of the scale set's namespace."""
    events: list[Object] = field(default_factory=list)
    """Events of both namespaces."""
    nodes: list[Object] = field(default_factory=list)
    """The nodes of pools; empty if the user may not list nodes."""


@dataclass(frozen=True)
class Explanation:
    """The reason why a job has no runner, or the pod that runs it."""

    detail: str
    code: str = ""
    """One of the manager's reasons; empty if the job has a runner or has ended."""
    next_step: str = ""
    machine: str = ""
    """The pod that runs the job or starts for it."""


def name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def namespace_of(found: Object) -> str:
    return str(found["metadata"].get("namespace", ""))


def status_of(found: Object) -> dict[str, Any]:
    return dict(found.get("status") or {})


def explain(job: WaitingJob, cluster: Cluster) -> Explanation:
    """Return the first cause that keeps the job from a runner. The causes are checked in the order in which a job
    passes them: job, scale set, listener, runner and pod.
    """
    if job.status == "completed":
        return Explanation(f"it has ended: {job.conclusion}")
    if job.status == "in_progress":
        return Explanation(f"runs on {job.runner_name}", machine=job.runner_name)
    if job.status == "waiting":
        return Explanation("a deployment of its environment waits for approval", "approval-pending",
                           "approve the deployment on the run's page")  # fmt: skip
    scale_set = scale_set_of(job, cluster)
    if scale_set is None:
        return _no_pool(job, cluster)
    if job.age_sec > _OLDEST_JOB_SEC:
        return Explanation("queued for more than 24 hours; GitHub cancels such jobs", "expired", "start a new run")
    return _scale_set(scale_set) or _listener(scale_set, cluster) or _runners(job, scale_set, cluster)


def scale_set_of(job: WaitingJob, cluster: Cluster) -> Object | None:
    """Return the scale set that runs-on names, by its name or by all of its labels."""
    wanted = {label.lower() for label in job.runs_on}
    return next((each for each in cluster.scale_sets if wanted and wanted <= _labels(each)), None)


def _labels(scale_set: Object) -> set[str]:
    spec = scale_set["spec"]
    found = [spec.get("runnerScaleSetName") or name_of(scale_set), *(spec.get("runnerScaleSetLabels") or ())]
    return {str(label).lower() for label in found}


def _no_pool(job: WaitingJob, cluster: Cluster) -> Explanation:
    names = sorted(str(each["spec"].get("runnerScaleSetName") or name_of(each)) for each in cluster.scale_sets)
    detail = f"no scale set of the cluster is named {', '.join(job.runs_on)}; it has: {', '.join(names) or 'none'}"
    step = "use only the name of a scale set as runs-on; the label self-hosted matches no scale set"
    return Explanation(detail, "no-pool", step)


def _scale_set(scale_set: Object) -> Explanation | None:
    metadata, name = scale_set["metadata"], name_of(scale_set)
    if metadata.get("deletionTimestamp"):
        detail = f"the scale set {name} is being deleted; it takes no job while its running jobs end"
        step = "wait, or check the last `pulumi up`, which replaces or removes the set"
        return Explanation(detail, "pool-stopped", step)
    # A runner whose version GitHub no longer accepts exits with 7. The controller then removes the listener, the
    # runners and the set at GitHub. It does nothing more until the set's spec changes (ephemeralrunner_controller.go
    # and autoscalingrunnerset_controller.go, Reconcile). This may also happen to a set with a current runner (issue
    # 4595).
    if status_of(scale_set).get("phase") == "Outdated":
        detail = f"the scale set {name} is Outdated: GitHub no longer accepts runners of this version"
        reset = (
            f"kubectl patch autoscalingrunnerset {name} --namespace {namespace_of(scale_set)} --subresource=status "
            """--type=merge --patch '{"status":{"phase":""}}'"""
        )
        step = f"set an image with a newer runner and run `pulumi up`; if the runner is the newest version: {reset}"
        return Explanation(detail, "pool-stopped", step)
    if not (metadata.get("annotations") or {}).get(_REGISTERED):
        detail = f"GitHub has not registered the scale set {name}"
        return Explanation(detail, "refused", f"the controller's log has GitHub's answer: {_CONTROLLER_LOG}")
    return None


def _listener(scale_set: Object, cluster: Cluster) -> Explanation | None:
    name = name_of(scale_set)
    owner = (name, namespace_of(scale_set))
    found = [
        each for each in cluster.listeners
        if (each["spec"].get("autoscalingRunnerSetName"), each["spec"].get("autoscalingRunnerSetNamespace")) == owner
    ]  # fmt: skip
    if not found:
        detail = f"the scale set {name} has no listener, so its jobs are not requested from GitHub"
        step = f"check the log of the controller, which creates listeners: {_CONTROLLER_LOG}"
        return Explanation(detail, "pool-stopped", step)
    listener = found[0]
    pod, logs = _pod_of(listener, cluster), f"kubectl logs --namespace {namespace_of(listener)}"
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        detail = f"the listener {name_of(listener)} has no pod; the controller replaces a pod that ends"
        return Explanation(detail, "pool-stopped", f"{logs} --selector {_SET_LABEL}={name} --previous")
    if _is_running(pod):
        return None
    pod_reason = _of_pod(pod, cluster)
    # A listener's pod needs no GPU node. If the pod has no problem, `_of_pod` only names the node on which the pod
    # starts, and the phase says more.
    phase = f"the listener's pod {name_of(pod)} is {status_of(pod).get('phase', 'unknown')}"
    detail = pod_reason.detail if pod_reason.code else phase
    step = f"{logs} {name_of(pod)}"
    return Explanation(f"the scale set {name} has no running listener: {detail}", "pool-stopped", step)


def _pod_of(owner: Object, cluster: Cluster) -> Object | None:
    """Return the pod of a listener or a runner, which has the same name."""
    place = (name_of(owner), namespace_of(owner))
    return next((each for each in cluster.pods if (name_of(each), namespace_of(each)) == place), None)


def _is_running(pod: Object) -> bool:
    status = status_of(pod)
    states = [each.get("state") or {} for each in status.get("containerStatuses", ())]
    return status.get("phase") == "Running" and all("running" in state for state in states)


def _runners(job: WaitingJob, scale_set: Object, cluster: Cluster) -> Explanation:
    name, namespace = name_of(scale_set), namespace_of(scale_set)
    own_runners = [
        each for each in cluster.runners
        if (each["metadata"].get("labels") or {}).get(_SET_LABEL) == name and namespace_of(each) == namespace
        and status_of(each).get("phase") != "Succeeded"
    ]  # fmt: skip
    for runner in own_runners:
        status = status_of(runner)
        same_name = not job.name or status.get("jobDisplayName") in (None, "", job.name)
        if status.get("workflowRunId") == job.run_id and same_name and job.run_id:
            return Explanation(f"GitHub gave it to the runner {name_of(runner)}", machine=name_of(runner))
    # A runner that is being deleted takes no job.
    own_runners = [each for each in own_runners if not each["metadata"].get("deletionTimestamp")]
    failed = [each for each in own_runners if status_of(each).get("phase") in ("Failed", "Outdated")]
    free = [each for each in own_runners if each not in failed and not status_of(each).get("jobId")]
    # The states without a code come first: a runner that starts normally may take the job.
    states = sorted((_runner(each, cluster) for each in free), key=lambda state: bool(state.code))
    if states:
        return states[0]
    # The controller counts a failed runner as one that the listener requested, so it starts no other instead
    # (controllers/actions.github.com/ephemeralrunnerset_controller.go, Reconcile).
    if failed:
        status = status_of(failed[0])
        causes = [str(status[key]) for key in ("reason", "message") if status.get(key)]
        detail = ": ".join([f"failed runners occupy {len(failed)} of the scale set's places", *causes])
        step = f"correct the cause, then kubectl delete ephemeralrunner --namespace {namespace} {name_of(failed[0])}"
        return Explanation(detail, "refused", step)
    most = scale_set["spec"].get("maxRunners")
    if most is not None and len(own_runners) >= most:
        return Explanation(f"{len(own_runners)} of {most} runners have a job", "at-max",
                           "wait for a runner, or raise the pool's max")  # fmt: skip
    step = "check that the repository may use the runner group; then delete the listener's pod, or start a new run"
    return Explanation("the listener runs, but GitHub has not announced this job to it", "never-picked-up", step)


def _runner(runner: Object, cluster: Cluster) -> Explanation:
    """Return the state of a runner without a job."""
    name = name_of(runner)
    if status_of(runner).get("ready"):
        step = "wait a minute; then check that the repository may use the runner group, or start a new run"
        return Explanation(
            f"the runner {name} is ready, but GitHub has not assigned the job to it", "never-picked-up", step
        )
    if (pod := _pod_of(runner, cluster)) is not None:
        return _of_pod(pod, cluster)
    for quota in cluster.quotas:
        if used_up := _used_up(quota):
            return Explanation(f"the quota {name_of(quota)} allows no further pod: {used_up}", "over-quota",
                               "wait for a runner, or raise `gpus` of the namespace")  # fmt: skip
    status = status_of(runner)
    detail = ": ".join([f"the runner {name} has no pod yet", *filter(None, [status.get("message")])])
    if failures := status.get("failures"):
        # The controller gives up after more than five failures (ephemeralrunner_controller.go, Reconcile).
        detail += f"; {len(failures)} of its pods have failed"
    return Explanation(detail, machine=name)


def _used_up(quota: Object) -> str:
    """Return a GPU count of the quota that is used up, or "". Such quantities are whole numbers."""
    status = status_of(quota)
    for resource, hard in (status.get("hard") or {}).items():
        used = (status.get("used") or {}).get(resource, "0")
        if "gpu" in resource and str(hard).isdecimal() and str(used).isdecimal() and int(used) >= int(hard):
            return f"{resource}: {used} of {hard} are used"
    return ""


def _of_pod(pod: Object, cluster: Cluster) -> Explanation:
    """Return the reason why a pod without a job waits."""
    name, messages = name_of(pod), _latest(pod, cluster.events)
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
    if checked := _nodes_with(UNPROVEN_KEY, pod, cluster):
        return Explanation(f"pod {name} waits for the check of the node {name_of(checked[0])}", machine=name)
    # Only the latest answer counts: after "no node" a node group can get room, and after "a node starts" that node can
    # fail.
    answer = next((reason for reason in reversed(messages) if reason in (_NO_NODE, *_NODE_STARTS)), "")
    if answer and answer != _NO_NODE:
        return Explanation(f"a node starts for pod {name}: {messages[answer]}", machine=name)
    if failed := _nodes_with(FAILED_KEY, pod, cluster):
        node, metadata = name_of(failed[0]), failed[0]["metadata"]
        detail = f"the node {node} failed its check: {(metadata.get('annotations') or {}).get(_FAILURE, '')}"
        step = f"repair the node, or delete its machine; after kubectl uncordon {node}, it is checked again"
        return Explanation(detail, "no-capacity", step)
    if answer:
        detail = f"no node for pod {name}, and the autoscaler starts none: {messages[answer]}"
        return Explanation(detail, "no-capacity", "raise the node group's max, or check the pool's labels and taint")
    message = messages.get("FailedScheduling") or _unschedulable(pod)
    if not message:
        return Explanation(f"pod {name} is new, and the scheduler has not processed it yet", machine=name)
    detail = f"no node for pod {name}, and no autoscaler has reacted: {message}"
    return Explanation(detail, "no-capacity", "check that an autoscaler runs (gpu-ci doctor) and may start such nodes")


def _nodes_with(taint: str, pod: Object, cluster: Cluster) -> list[Object]:
    """Return the nodes with a taint that the pod selects by their labels."""
    selected = ((pod.get("spec") or {}).get("nodeSelector") or {}).items()
    return [
        node for node in cluster.nodes
        if selected and selected <= node["metadata"]["labels"].items()
        and taint in [each["key"] for each in node["spec"].get("taints") or ()]
    ]  # fmt: skip


def _stuck_container(pod: Object) -> str:
    status = status_of(pod)
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", _STARTS[0]) not in _STARTS:
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
