"""Reasons why a job of a pool on Kubernetes waits: one cluster for each reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.gpu_nodes import FAILED_KEY, UNPROVEN_KEY
from gpu_manager.kubernetes.reasons import Cluster, WaitingJob, explain

from tests.manager.kubernetes.objects import (
    LISTENER,
    NAMESPACE,
    SYSTEM,
    container,
    event,
    listener,
    listener_pod,
    node,
    outdated_scale_set,
    pod,
    quota,
    runner,
    scale_set,
)

JOB = WaitingJob(("l4",), 123, 456, "acme/kernels", "gpu tests", "CI")
READY = Cluster([scale_set()], [listener()], pods=[listener_pod()])
BUSY = {"phase": "Running", "jobId": "b2", "workflowRunId": 99, "jobDisplayName": "other", "ready": True}


def cluster(**changes: Any) -> Cluster:
    return replace(READY, **changes)


def waiting(*events: Any, **status: Any) -> Cluster:
    """Return a cluster with one runner whose pod waits."""
    found = pod("l4-a", status={"phase": "Pending", **status})
    return cluster(runners=[runner("l4-a")], pods=[listener_pod(), found], events=list(events))


def on_nodes(one: Any, *events: Any) -> Cluster:
    """Return a cluster with one runner, whose pod selects the nodes of its pool, and one node."""
    found = pod("l4-a", selector=gpu_nodes.labels("l4"))
    return cluster(runners=[runner("l4-a")], pods=[listener_pod(), found], events=list(events), nodes=[one])


CASES: dict[str, tuple[Cluster, str, str]] = {
    "no set has this name": (
        Cluster([scale_set("t4"), scale_set("a10g")]),
        "no-pool",
        "no scale set of the cluster is named l4; it has: a10g, t4",
    ),
    "GitHub has not registered the set": (
        cluster(scale_sets=[scale_set(annotations={})]),
        "refused",
        "GitHub has not registered the scale set l4",
    ),
    "the runner's version is too old": (
        Cluster([outdated_scale_set()]),
        "pool-stopped",
        "the scale set l4 is Outdated: GitHub no longer accepts runners of this version",
    ),
    "the set is being deleted": (
        cluster(scale_sets=[scale_set(deletionTimestamp="2026-11-24T10:00:00Z")]),
        "pool-stopped",
        "the scale set l4 is being deleted; it takes no job while its running jobs end",
    ),
    "there is no listener": (
        cluster(listeners=[]),
        "pool-stopped",
        "the scale set l4 has no listener, so its jobs are not requested from GitHub",
    ),
    "the listener has no pod": (
        cluster(pods=[]),
        "pool-stopped",
        f"the listener {LISTENER} has no pod; the controller replaces a pod that ends",
    ),
    "the listener has no node": (
        cluster(
            pods=[pod(LISTENER, SYSTEM)],
            events=[event(LISTENER, "FailedScheduling", "full", namespace=SYSTEM)],
        ),
        "pool-stopped",
        f"the scale set l4 has no running listener: no node for pod {LISTENER}, and no autoscaler has reacted: full",
    ),
    "all runners have a job": (
        cluster(runners=[runner("l4-a", **BUSY), runner("l4-b", **BUSY)]),
        "at-max",
        "2 of 2 runners have a job",
    ),
    "the quota is used up": (
        cluster(runners=[runner("l4-a")], quotas=[quota(4, 4)]),
        "over-quota",
        "the quota gpu-ci-quota allows no further pod: requests.nvidia.com/gpu: 4 of 4 are used",
    ),
    "the quota of its queue is used up": (
        cluster(
            runners=[runner("l4-a")],
            pods=[
                listener_pod(),
                pod(
                    "l4-a",
                    gates=("kueue.x-k8s.io/admission",),
                    labels={"kueue.x-k8s.io/queue-name": "vision"},
                    status={
                        "phase": "Pending",
                        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
                    },
                ),
            ],
        ),
        "over-quota",
        "pod l4-a waits for GPUs of the queue vision of Kueue",
    ),
    "the autoscaler starts no node": (
        waiting(
            event("l4-a", "FailedScheduling", "0/3 nodes are available"),
            event("l4-a", "NotTriggerScaleUp", "1 max node group size reached"),
        ),
        "no-capacity",
        "no node for pod l4-a, and the autoscaler starts none: 1 max node group size reached",
    ),
    "the autoscaler finds no node any more": (
        waiting(
            event("l4-a", "NotTriggerScaleUp", "1 max node group size reached", at="2026-11-24T09:55:00Z"),
            event("l4-a", "TriggeredScaleUp", "pod triggered scale-up", at="2026-11-24T10:00:00Z"),
            event("l4-a", "NotTriggerScaleUp", "1 in backoff after failed scale-up", at="2026-11-24T10:15:00Z"),
        ),
        "no-capacity",
        "no node for pod l4-a, and the autoscaler starts none: 1 in backoff after failed scale-up",
    ),
    "the events are about others": (
        waiting(
            event("l4-a", "NotTriggerScaleUp", "1 max node group size reached", namespace=SYSTEM),
            event("l4-a", "FailedScheduling", "0/3 nodes are available"),
        ),
        "no-capacity",
        "no node for pod l4-a, and no autoscaler has reacted: 0/3 nodes are available",
    ),
    "the events are gone": (
        waiting(
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
        ),
        "no-capacity",
        "no node for pod l4-a, and no autoscaler has reacted: 0/3 nodes",
    ),
    "a node failed its check": (
        on_nodes(
            node("gpu-1", FAILED_KEY, "l4: GPU 0 is missing"),
            event("l4-a", "NotTriggerScaleUp", "1 max node group size reached"),
        ),
        "no-capacity",
        "the node gpu-1 failed its check: l4: GPU 0 is missing",
    ),
    "a node of another pool failed its check": (
        on_nodes(
            node("gpu-1", FAILED_KEY, "", "t4"), event("l4-a", "NotTriggerScaleUp", "1 max node group size reached")
        ),
        "no-capacity",
        "no node for pod l4-a, and the autoscaler starts none: 1 max node group size reached",
    ),
    "the image cannot be pulled": (
        waiting(containerStatuses=[container(waiting={"reason": "ImagePullBackOff", "message": "401 Unauthorized"})]),
        "refused",
        "pod l4-a: ImagePullBackOff: 401 Unauthorized",
    ),
    "a runner failed and stays": (
        cluster(runners=[runner("l4-a", phase="Failed", reason="InvalidPod", message="violates PodSecurity")]),
        "refused",
        "failed runners occupy 1 of the scale set's places: InvalidPod: violates PodSecurity",
    ),
    "a runner is ready and gets no job": (
        cluster(runners=[runner("l4-a", ready=True)]),
        "never-picked-up",
        "the runner l4-a is ready, but GitHub has not assigned the job to it",
    ),
    "the listener heard of no job": (
        READY,
        "never-picked-up",
        "the listener runs, but GitHub has not announced this job to it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_cause_has_its_reason(case: str) -> None:
    found, code, detail = CASES[case]
    explained = explain(JOB, found)
    assert (explained.code, explained.detail) == (code, detail)
    assert explained.next_step


def test_a_node_starts_where_the_autoscaler_found_none_before() -> None:
    """Another node group has room now, or a person has raised the maximum."""
    explained = explain(JOB, waiting(
        event("l4-a", "NotTriggerScaleUp", "1 max node group size reached", at="2026-11-24T10:00:00Z"),
        event("l4-a", "TriggeredScaleUp", "pod triggered scale-up", at="2026-11-24T10:15:00Z"),
    ))  # fmt: skip
    assert (explained.code, explained.detail) == ("", "a node starts for pod l4-a: pod triggered scale-up")


def test_a_job_with_a_runner_has_no_reason() -> None:
    ours = runner("l4-a", **{**BUSY, "workflowRunId": 123, "jobDisplayName": "gpu tests"})
    explained = explain(JOB, cluster(runners=[runner("l4-b", **BUSY), ours]))
    assert (explained.code, explained.machine) == ("", "l4-a")


STARTING: dict[str, tuple[Cluster, str]] = {
    "a node starts": (
        waiting(event("l4-a", "TriggeredScaleUp", "pod triggered scale-up: [{l4 0->1 (max: 2)}]")),
        "a node starts for pod l4-a: pod triggered scale-up: [{l4 0->1 (max: 2)}]",
    ),
    "a node is checked": (
        on_nodes(node("gpu-1", UNPROVEN_KEY), event("l4-a", "FailedScheduling", "0/3 nodes are available")),
        "pod l4-a waits for the check of the node gpu-1",
    ),
    "a node starts instead of the failed one": (
        on_nodes(node("gpu-1", FAILED_KEY), event("l4-a", "TriggeredScaleUp", "pod triggered scale-up")),
        "a node starts for pod l4-a: pod triggered scale-up",
    ),
    "Karpenter starts a node": (
        waiting(
            event("l4-a", "FailedScheduling", "0/3 nodes are available"),
            event("l4-a", "Nominated", "Pod should schedule on: nodeclaim/l4-x"),
        ),
        "a node starts for pod l4-a: Pod should schedule on: nodeclaim/l4-x",
    ),
    "the pod is new": (waiting(), "pod l4-a is new, and the scheduler has not processed it yet"),
    "the pod has a node": (
        cluster(runners=[runner("l4-a")], pods=[listener_pod(), pod("l4-a", node="gpu-1")]),
        "its runner starts in pod l4-a on node gpu-1",
    ),
    "its pods fail, and another one is tried": (
        cluster(runners=[runner("l4-a", failures={"uid-1": "2026-11-24T10:00:00Z", "uid-2": "2026-11-24T10:01:00Z"})]),
        "the runner l4-a has no pod yet; 2 of its pods have failed",
    ),
    "the runner has no pod yet": (
        cluster(runners=[runner("l4-a")], quotas=[quota(3, 4)]),
        "the runner l4-a has no pod yet",
    ),
}


@pytest.mark.parametrize("case", STARTING)
def test_a_job_whose_runner_starts_has_no_reason(case: str) -> None:
    found, detail = STARTING[case]
    explained = explain(JOB, found)
    assert (explained.code, explained.detail, explained.machine) == ("", detail, "l4-a")


def test_a_runner_of_another_set_or_namespace_is_ignored() -> None:
    other = runner("t4-a", of="t4", phase="Failed", reason="InvalidPod")
    assert explain(JOB, cluster(runners=[other])).code == "never-picked-up"


def test_a_runner_that_is_being_deleted_counts_no_more_but_keeps_its_job() -> None:
    idle = runner("l4-a", deleting=True, ready=True)
    assert "has not announced this job to it" in explain(JOB, cluster(runners=[idle])).detail
    ours = runner("l4-a", deleting=True, **{**BUSY, "workflowRunId": 123, "jobDisplayName": "gpu tests"})
    assert explain(JOB, cluster(runners=[ours])).machine == "l4-a"


def test_a_runner_that_starts_comes_before_one_that_cannot() -> None:
    stuck = pod(
        "l4-a", status={"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ErrImagePull"})]}
    )
    found = cluster(runners=[runner("l4-a"), runner("l4-b")], pods=[listener_pod(), stuck, pod("l4-b", node="gpu-1")])
    assert explain(JOB, found).machine == "l4-b"


@pytest.mark.parametrize(
    ("change", "code", "detail"),
    [
        ({"status": "waiting"}, "approval-pending", "a deployment of its environment waits for approval"),
        ({"age_sec": 90_000.0}, "expired", "queued for more than 24 hours; GitHub cancels such jobs"),
        ({"status": "completed", "conclusion": "cancelled"}, "", "it has ended: cancelled"),
        ({"status": "in_progress", "runner_name": "l4-x-runner-abc"}, "", "runs on l4-x-runner-abc"),
        ({"runs_on": ("self-hosted", "gpu", "l4")}, "no-pool",
         "no scale set of the cluster is named self-hosted, gpu, l4; it has: l4"),
        ({"runs_on": ()}, "no-pool", "no scale set of the cluster is named ; it has: l4"),
    ],
)  # fmt: skip
def test_githubs_state_of_the_job_comes_before_the_clusters(change: dict[str, Any], code: str, detail: str) -> None:
    explained = explain(replace(JOB, **change), READY)
    assert (explained.code, explained.detail) == (code, detail)


def test_a_set_is_found_by_the_name_that_github_has() -> None:
    sets = [scale_set("l4", called="gpu-l4"), scale_set("t4")]
    found = cluster(scale_sets=sets)
    assert explain(replace(JOB, runs_on=("GPU-L4",)), found).code == "never-picked-up"
    assert explain(JOB, found).detail == "no scale set of the cluster is named l4; it has: gpu-l4, t4"


def test_the_next_step_names_what_to_delete() -> None:
    found = cluster(runners=[runner("l4-a", phase="Failed", reason="TooManyPodFailures", message="x")])
    step = f"correct the cause, then kubectl delete ephemeralrunner --namespace {NAMESPACE} l4-a"
    assert explain(JOB, found).next_step == step


def test_a_listener_that_ended_is_named_with_the_command_for_its_log() -> None:
    ended = listener_pod({"phase": "Running", "containerStatuses": [container(terminated={"exitCode": 1})]})
    assert explain(JOB, cluster(pods=[ended])).next_step == f"kubectl logs --namespace {SYSTEM} {LISTENER}"
    step = f"kubectl logs --namespace {SYSTEM} --selector actions.github.com/scale-set-name=l4 --previous"
    assert explain(JOB, cluster(pods=[])).next_step == step


def test_a_job_of_the_same_run_with_another_name_has_another_runner() -> None:
    ours = runner("l4-a", **{**BUSY, "workflowRunId": 123, "jobDisplayName": "lint"})
    assert explain(JOB, cluster(runners=[ours])).machine == ""
    # Without an answer from GitHub the job's name is unknown, so the run's id must identify the job.
    assert explain(replace(JOB, name=""), cluster(runners=[ours])).machine == "l4-a"
