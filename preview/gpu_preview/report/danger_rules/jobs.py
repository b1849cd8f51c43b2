"""`interrupts-jobs` and `keeps-jobs`: what becomes of the jobs when what they run on goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...engine.states import Change, World
from ...model import Finding, Operation
from ..danger_rule import INTERRUPTS_JOBS, KEEPS_JOBS


@dataclass(frozen=True)
class Runs:
    """Types of resources that jobs run on."""

    types: tuple[str, ...]
    ends: str
    """What happens to jobs when it is deleted or replaced."""
    source: str
    rolls: tuple[str, ...] = ()
    """Properties with whose change, in an update, it replaces its machines."""
    rolled: str = ""
    """What happens to jobs then."""


_EKS = "docs.aws.amazon.com/eks/latest/userguide/"
_GOOGLE = "docs.cloud.google.com/compute/docs/"
_HELM = "kubernetes:helm.sh/v3:Release"

GROUPS = (
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
)
RUNS = (
    Runs(
        GROUPS,
        "all its machines are deleted with it, and the jobs on them end without a result",
        f"{_GOOGLE}reference/rest/v1/instanceGroupManagers/delete",
    ),
    Runs(
        ("gcp:compute/instance:Instance", "gcp:compute/instanceFromTemplate:InstanceFromTemplate"),
        "the machine is deleted, and a job on it ends without a result",
        f"{_GOOGLE}instances/deleting-instance, and changing-machine-type-of-stopped-instance",
        ("machineType",),
        "the machine is stopped for that, and a job on it ends without a result",
    ),
    Runs(
        (
            "gcp:cloudbuild/workerPool:WorkerPool",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerSet",
        ),
        "no source tells what becomes of what runs in it, so take that for lost",
        "none found",
    ),
    Runs(
        ("gcp:container/nodePool:NodePool", "gcp:container/cluster:Cluster"),
        "its nodes are deleted, and the jobs in their pods end when the pods are evicted",
        "docs.cloud.google.com/kubernetes-engine/docs/how-to/node-pools",
    ),
    Runs(
        ("aws:eks/nodeGroup:NodeGroup",),
        "its nodes are drained and terminated one by one, and pods that have not ended after 15 minutes are deleted "
        "with their jobs",
        f"{_EKS}delete-managed-node-group.html",
        ("version", "releaseVersion", "launchTemplate"),
        "nodes of the new sort take the place of the old ones, whose pods are evicted with their jobs",
    ),
    Runs(
        ("aws:eks/cluster:Cluster",),
        "every job in the cluster ends",
        f"{_EKS}delete-cluster.html",
    ),
    Runs(
        ("aws:autoscaling/group:Group",),
        "its machines are terminated, and the jobs on them end without a result",
        "docs.aws.amazon.com/autoscaling/ec2/userguide/as-process-shutdown.html",
    ),
    Runs(
        ("aws:ec2/instance:Instance",),
        "the machine is terminated, and a job on it ends without a result",
        "docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html, and ec2-instance-resize.html",
        ("instanceType",),
        "the machine is stopped for that, and a job on it ends without a result",
    ),
    Runs(
        ("kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",),
        "idle runners are deleted, one with a job ends it first while controller and secret stay, and jobs that wait "
        "find nobody until another set comes",
        "ephemeralrunnerset_controller.go in github.com/actions/actions-runner-controller: JobStillRunningException",
    ),
    Runs(
        ("kubernetes:core/v1:Namespace",),
        "everything in it is deleted, pods that run a job too",
        "kubernetes.io/docs/tasks/administer-cluster/namespaces/",
    ),
)
BY_TYPE = {type_: runs for runs in RUNS for type_ in runs.types}
_SCALE_SET = BY_TYPE["kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"]
_CONTROLLER = Runs(
    (_HELM,),
    "nothing starts runners or ends them any more, and the sets it kept stay behind without it",
    "docs.github.com, Deploying runner scale sets with Actions Runner Controller",
)
CHARTS = {
    "gha-runner-scale-set": _SCALE_SET,
    "gha-runner-scale-set-controller": _CONTROLLER,
    "actions-runner-controller": _CONTROLLER,
}
"""Helm releases of GitHub's runners and of what keeps them, by the last part of their chart."""


def check(change: Change, _world: World) -> Iterator[Finding]:
    runs = runs_of(change)
    if runs is None:
        return
    if change.ends:
        yield INTERRUPTS_JOBS.found(change, f"{change.name} {change.ends}: {runs.ends}")
    elif change.resource.operation == Operation.UPDATE:
        yield from _updated(change, runs)


def runs_of(change: Change) -> Runs | None:
    """What becomes of jobs with it; None for what runs none."""
    state = change.before or change.after
    chart = state.inputs.get("chart") if state and change.type == _HELM else None
    return CHARTS.get(chart.rpartition("/")[2]) if isinstance(chart, str) else BY_TYPE.get(change.type)


def _updated(change: Change, runs: Runs) -> Iterator[Finding]:
    """A group that stays, and still loses machines."""
    changed = sorted({pair.keys[0] for pair in change.inputs if _differs(pair.before, pair.after)})
    if rolls := [name for name in changed if name in runs.rolls]:
        yield INTERRUPTS_JOBS.found(change, f"{change.name} gets another {' and '.join(rolls)}: {runs.rolled}")
    if change.type not in GROUPS or change.before is None or change.after is None:
        return
    policy = change.after.inputs.get("updatePolicy")
    proactive = isinstance(policy, dict) and policy.get("type") == "PROACTIVE"
    if proactive and (updated := [name for name in changed if name in ("versions", "allInstancesConfig")]):
        text = f"{change.name} gets other {' and '.join(updated)}, and updatePolicy.type is PROACTIVE"
        hint = "OPPORTUNISTIC gives new machines the new template and leaves the others to their jobs"
        yield INTERRUPTS_JOBS.found(change, f"{text}: it replaces its machines at once, whatever runs on them", hint)
    elif "versions" in changed and isinstance(policy, dict) and policy.get("type") == "OPPORTUNISTIC":
        text = "gets another template: machines that are there keep theirs, and no job is interrupted"
        yield KEEPS_JOBS.found(change, f"{change.name} {text}")
    was, now = (_number(state.inputs.get("targetSize")) for state in (change.before, change.after))
    if was is not None and now is not None and now < was:
        text = f"{change.name} shrinks from {was:g} to {now:g} machines: it picks those to delete itself, busy or not"
        yield INTERRUPTS_JOBS.found(change, text)


def _differs(before: Any, after: Any) -> bool:
    """Of values that are no maps or lists: whether they are others, which an unknown one may be."""
    return not isinstance(after, dict | list) and before != after


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
