"""Finds the reason why a job that names a runner scale set has no runner, from the cluster's objects alone.

Names of annotations, labels and phases: actions/actions-runner-controller@9bb16ae, apis/actions.github.com/v1alpha1 and
controllers/actions.github.com.
"""

from __future__ import annotations

from .model import Cluster, Explanation, Object, WaitingJob, name_of, namespace_of, status_of
from .pod_reasons import of_pod

_REGISTERED = "runner-scale-set-id"
_SET_LABEL = "actions.github.com/scale-set-name"
# GitHub cancels a job that waited for a runner for 24 hours (docs.github.com, "Actions limits").
_OLDEST_JOB_SEC = 24 * 3600.0
_CONTROLLER_LOG = "kubectl logs --all-namespaces --selector app.kubernetes.io/part-of=gha-rs-controller"


def explain(job: WaitingJob, cluster: Cluster) -> Explanation:
    """Return the first cause that keeps the job from a runner. The causes are checked in the order in which a job
    passes them: job, scale set, listener, runner and pod.
    """
    if job.status == "completed":
        return Explanation(f"it has ended: {job.conclusion}")
    if job.status == "in_progress":
        return _has_job(job.runner_name, f"runs on {job.runner_name}", cluster)
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
    names = ", ".join(
        sorted(str(each["spec"].get("runnerScaleSetName") or name_of(each)) for each in cluster.scale_sets)
    )
    detail = f"no scale set of the cluster is named {', '.join(job.runs_on)}; it has: {names or 'none'}"
    return Explanation(
        detail, "no-pool", "use only the name of a scale set as runs-on; the label self-hosted matches no scale set"
    )


def _scale_set(scale_set: Object) -> Explanation | None:
    metadata, name = scale_set["metadata"], name_of(scale_set)
    if metadata.get("deletionTimestamp"):
        detail = f"the scale set {name} is being deleted; it takes no job while its running jobs end"
        return Explanation(
            detail, "pool-stopped", "wait, or check the last `pulumi up`, which replaces or removes the set"
        )
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
        return Explanation(
            detail, "pool-stopped", f"check the log of the controller, which creates listeners: {_CONTROLLER_LOG}"
        )
    listener = found[0]
    place = (name_of(listener), namespace_of(listener))
    pod = next((each for each in cluster.pods if (name_of(each), namespace_of(each)) == place), None)
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        detail = f"the listener {place[0]} has no pod; the controller replaces a pod that ends"
        step = f"kubectl logs --namespace {place[1]} --selector actions.github.com/scale-set-name={name} --previous"
        return Explanation(detail, "pool-stopped", step)
    if _is_running(pod):
        return None
    pod_reason = of_pod(pod, cluster.events)
    # A listener's pod needs no GPU node. If the pod has no problem, `of_pod` only names the node
    # on which the pod starts, and the phase says more.
    detail = (
        pod_reason.detail
        if pod_reason.code
        else f"the listener's pod {place[0]} is {status_of(pod).get('phase', 'unknown')}"
    )
    step = f"kubectl logs --namespace {place[1]} {place[0]}"
    return Explanation(f"the scale set {name} has no running listener: {detail}", "pool-stopped", step)


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
            detail = f"GitHub gave it to the runner {name_of(runner)}"
            if not job.name:
                detail = f"the runner {name_of(runner)} has a job of this run; `gh` shows if it is this job"
            return _has_job(name_of(runner), detail, cluster)
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
        return _failed(failed, namespace)
    most = scale_set["spec"].get("maxRunners")
    if most is not None and len(own_runners) >= most:
        return Explanation(f"{len(own_runners)} of {most} runners have a job", "at-max",
                           "wait for a runner, or raise the pool's max")  # fmt: skip
    step = "check that the repository may use the runner group; then delete the listener's pod, or start a new run"
    return Explanation("the listener runs, but GitHub has not announced this job to it", "never-picked-up", step)


def _has_job(runner: str, detail: str, cluster: Cluster) -> Explanation:
    """Return the explanation of a runner with a job. If jobs have their own pods, that pod may still wait for a node.

    The controller finds the pod by the same label (ephemeralrunner_controller.go, cleanupRunnerLinkedPods).
    """
    for pod in cluster.pods:
        is_its_own = (pod["metadata"].get("labels") or {}).get("runner-pod") == runner
        if is_its_own and status_of(pod).get("phase") == "Pending":
            pod_reason = of_pod(pod, cluster.events)
            return Explanation(
                f"{detail}, and the job's own pod waits: {pod_reason.detail}",
                pod_reason.code,
                pod_reason.next_step,
                runner,
            )
    return Explanation(detail, machine=runner)


def _failed(failed: list[Object], namespace: str) -> Explanation:
    status, runners = status_of(failed[0]), "1 failed runner occupies a place"
    if len(failed) > 1:
        runners = f"{len(failed)} failed runners occupy places"
    pod_reason = [str(status[key]) for key in ("reason", "message") if status.get(key)]
    detail = ": ".join([f"{runners} of the scale set", *pod_reason])
    step = f"correct the cause, then kubectl delete ephemeralrunner --namespace {namespace} {name_of(failed[0])}"
    return Explanation(detail, "refused", step)


def _runner(runner: Object, cluster: Cluster) -> Explanation:
    """Return the state of a runner without a job."""
    name, place = name_of(runner), (name_of(runner), namespace_of(runner))
    if status_of(runner).get("ready"):
        step = "wait a minute; then check that the repository may use the runner group, or start a new run"
        return Explanation(
            f"the runner {name} is ready, but GitHub has not assigned the job to it", "never-picked-up", step
        )
    pod = next((each for each in cluster.pods if (name_of(each), namespace_of(each)) == place), None)
    if pod is not None:
        return of_pod(pod, cluster.events)
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
