"""The rules `interrupts-jobs`, `keeps-jobs` and `gate-removed`: running jobs that a change ends, and checks of GPUs.

A gate is the resource that fails a deployment unless the smoke check passes on a GPU of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_ci.kinds import pool_kinds
from gpu_ci.kubernetes.gpu_nodes import UNPROVEN_KEY

from ...engine.digest import type_of
from ...engine.states import Change, StackStates, State
from ...json_text import as_list, as_map
from ...model import Finding, Operation
from ..danger_rule import GATE_REMOVED, INTERRUPTS_JOBS, KEEPS_JOBS, REUSES_HOSTS


@dataclass(frozen=True)
class JobResource:
    """Types of resources that jobs run on, or that control the resources that jobs run on."""

    types: tuple[str, ...]
    on_delete: str
    """The effect on jobs if the resource is deleted or replaced."""
    source: str
    machine_properties: tuple[str, ...] = ()
    """Properties that an update can change only by stopping or replacing the machines."""
    on_update: str = ""
    """The effect on jobs if an update changes one of `machine_properties`."""


_EKS = "docs.aws.amazon.com/eks/latest/userguide/"
_GOOGLE = "docs.cloud.google.com/compute/docs/"
_GKE = "docs.cloud.google.com/kubernetes-engine/docs/"
_HELM = "kubernetes:helm.sh/v3:Release"
_NO_SOURCE = "no source says what happens to running jobs, so assume that they are lost"

GROUPS = (
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
)
NODE_POOL = "gcp:container/nodePool:NodePool"
JOB_RESOURCES = (
    JobResource(
        GROUPS,
        "all its machines are deleted with it, and the jobs on them end without a result",
        f"{_GOOGLE}reference/rest/v1/instanceGroupManagers/delete",
    ),
    JobResource(
        ("gcp:compute/instance:Instance", "gcp:compute/instanceFromTemplate:InstanceFromTemplate"),
        "the machine is deleted, and a job on it ends without a result",
        f"{_GOOGLE}instances/deleting-instance, and changing-machine-type-of-stopped-instance",
        ("machineType",),
        "the cloud stops the machine for this change, and a job on it ends without a result",
    ),
    JobResource(
        (
            "gcp:cloudbuild/workerPool:WorkerPool",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerSet",
        ),
        _NO_SOURCE,
        "none found",
    ),
    JobResource(
        (NODE_POOL,),
        "its nodes are deleted, and the jobs in their pods end when the pods are evicted",
        f"{_GKE}how-to/node-pools, and concepts/node-pool-upgrade-strategies",
        (
            "nodeConfig.machineType",
            "nodeConfig.diskSizeGb",
            "nodeConfig.diskType",
            "nodeConfig.gcfsConfig",
            "nodeConfig.imageType",
        ),
        "GKE replaces the nodes, and ends a job one hour after the replacement of its node began",
    ),
    JobResource(
        ("gcp:container/cluster:Cluster",),
        "its nodes are deleted, and the jobs in their pods end when the pods are evicted",
        f"{_GKE}how-to/node-pools",
    ),
    JobResource(
        ("aws:eks/nodeGroup:NodeGroup",),
        "its nodes are drained and terminated one by one, and pods that have not ended after 15 minutes are deleted "
        "with their jobs",
        f"{_EKS}delete-managed-node-group.html",
        ("version", "releaseVersion", "launchTemplate"),
        "new nodes replace the old nodes, and the pods on the old nodes are evicted with their jobs",
    ),
    JobResource(
        ("aws:eks/cluster:Cluster",),
        "every job in the cluster ends",
        f"{_EKS}delete-cluster.html",
    ),
    JobResource(
        ("aws:autoscaling/group:Group",),
        "its machines are terminated, and the jobs on them end without a result",
        "docs.aws.amazon.com/autoscaling/ec2/userguide/as-process-shutdown.html",
    ),
    JobResource(
        ("aws:ec2/instance:Instance",),
        "the machine is terminated, and a job on it ends without a result",
        "docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html, and ec2-instance-resize.html",
        ("instanceType",),
        "the cloud stops the machine for this change, and a job on it ends without a result",
    ),
    JobResource(
        ("kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",),
        "idle runners are deleted; busy runners finish their job if the controller and the secret stay; waiting jobs "
        "get no runner until another scale set exists",
        "ephemeralrunnerset_controller.go in github.com/actions/actions-runner-controller: JobStillRunningException",
    ),
    JobResource(
        ("kubernetes:operator.tekton.dev/v1alpha1:TektonConfig",),
        "Tekton is deleted, and runs of every program of the cluster end without a result",
        "docs/TektonConfig.md in github.com/tektoncd/operator",
    ),
    JobResource(
        ("kubernetes:core/v1:Namespace",),
        "every object in the namespace is deleted, including pods that run a job",
        "kubernetes.io/docs/tasks/administer-cluster/namespaces/",
    ),
)
BY_TYPE = {type_: entry for entry in JOB_RESOURCES for type_ in entry.types}
_SCALE_SET = BY_TYPE["kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"]
_CONTROLLER = JobResource(
    (_HELM,),
    "no controller starts or deletes runners any more, and the runner scale sets stay",
    "docs.github.com, Deploying runner scale sets with Actions Runner Controller",
)
_KUEUE = JobResource(
    (_HELM,),
    "Helm deletes the definitions of Kueue, and with them every queue of the cluster, also those of other programs; "
    "runners that wait for quota do not start",
    "charts/kueue/templates/crd in github.com/kubernetes-sigs/kueue",
)
_TEKTON = JobResource(
    (_HELM,),
    "no operator repairs or updates Tekton any more, and a TektonConfig cannot be deleted",
    "pkg/reconciler in github.com/tektoncd/operator",
)
CHARTS = {
    "gha-runner-scale-set": _SCALE_SET,
    "gha-runner-scale-set-controller": _CONTROLLER,
    "actions-runner-controller": _CONTROLLER,
    "kueue": _KUEUE,
    "tekton-operator": _TEKTON,
}
"""Helm releases of GitHub's runners and of the controllers that start them, by the last part of the chart's name."""


def check(change: Change, stack_states: StackStates) -> Iterator[Finding]:
    job_resource = job_resource_of(change)
    if job_resource is None:
        return
    if change.ends and not _is_always_empty(change, stack_states):
        yield INTERRUPTS_JOBS.found(change, f"{change.name} {change.ends}: {job_resource.on_delete}")
    elif change.resource.operation == Operation.UPDATE:
        yield from _updated(change, job_resource)


_DEFINITION = "gcp:storage/bucketObject:BucketObject"
"""The object with the definition of a pool's rented machines."""


def check_reuse(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    """Report a pool that begins to reuse its hosts, by the agent's configuration in the definition of its machines."""
    before, after = (
        state is not None and state.type == _DEFINITION and '"reuse": true' in str(state.inputs.get("source"))
        for state in (change.before, change.after)
    )
    if after and not before and change.resource.operation != Operation.DELETE:
        text = f"the pool {change.resource.component}".rstrip()
        yield REUSES_HOSTS.found(change, f"{text} runs several jobs on one host: a job can change it for later jobs")


def job_resource_of(change: Change) -> JobResource | None:
    """Return the entry for the type or Helm chart of a resource; None if no jobs run on it."""
    state = change.before or change.after
    chart = state.inputs.get("chart") if state and change.type == _HELM else None
    if not isinstance(chart, str):
        return of_type(change.type)
    return CHARTS.get(chart.partition("@")[0].rpartition("/")[2])


def of_type(type_: str) -> JobResource | None:
    """Return the entry for a type. Only a kind of pool, such as one of another package, may name it."""
    named = any(type_ in kind.job_types for kind in pool_kinds().values())
    return BY_TYPE.get(type_) or (JobResource((type_,), _NO_SOURCE, "none found") if named else None)


def _updated(change: Change, job_resource: JobResource) -> Iterator[Finding]:
    """Yield findings about an update that stops, replaces or deletes machines, or keeps all of them."""
    paths = [pair.keys for pair in change.inputs if _differs(pair.before, pair.after)]
    changed = sorted({name for keys in paths for name in (keys[0], ".".join(map(str, keys[:2])))})
    disruptive = [name for name in changed if name in job_resource.machine_properties]
    if disruptive and not _waits_for_jobs(change):
        text = f"{change.name} changes {' and '.join(disruptive)}: {job_resource.on_update}"
        yield INTERRUPTS_JOBS.found(change, text)
    if gone := _removed_zones(change):
        text = f"{change.name} loses {' and '.join(gone)}: GKE deletes the nodes there with the jobs on them"
        yield INTERRUPTS_JOBS.found(change, text)
    if _starts_unproven(change.before) and not _starts_unproven(change.after):
        yield GATE_REMOVED.found(change, f"{change.name} no longer checks each new node before jobs use it")
    if change.type not in GROUPS or change.before is None or change.after is None:
        return
    policy = change.after.inputs.get("updatePolicy")
    proactive = isinstance(policy, dict) and policy.get("type") == "PROACTIVE"
    if proactive and (updated := [name for name in changed if name in ("versions", "allInstancesConfig")]):
        text = f"{change.name} changes {' and '.join(updated)}, and updatePolicy.type is PROACTIVE"
        hint = "with OPPORTUNISTIC, new machines get the new template, and existing machines keep theirs and their jobs"
        yield INTERRUPTS_JOBS.found(change, f"{text}: it replaces its machines at once, also busy ones", hint)
    elif "versions" in changed and isinstance(policy, dict) and policy.get("type") == "OPPORTUNISTIC":
        text = "gets another template: existing machines keep the old template, and no job is interrupted"
        yield KEEPS_JOBS.found(change, f"{change.name} {text}")
    size_before, size_after = (_number(state.inputs.get("targetSize")) for state in (change.before, change.after))
    if size_before is not None and size_after is not None and size_after < size_before:
        sizes = f"from {size_before:g} to {size_after:g} machines"
        text = f"{change.name} shrinks {sizes}: Google chooses which machines to delete, also busy ones"
        yield INTERRUPTS_JOBS.found(change, text)


def _is_always_empty(change: Change, stack_states: StackStates) -> bool:
    """Return True for the group of a pool whose machines the runner manager creates, outside the group."""
    return (
        change.type in GROUPS
        and change.before is not None
        and any(
            state.type == _TEMPLATE
            and state.parent == change.before.parent
            and '"registered_by": "manager"' in str(state.inputs.get("metadata"))
            for state in stack_states.before.values()
        )
    )


def _waits_for_jobs(change: Change) -> bool:
    """Return True for a GKE node pool whose nodes are replaced one by one, each after its jobs.

    Only an autoscaled blue-green upgrade waits that long (the source of NODE_POOL).
    """
    settings = change.after.inputs.get("upgradeSettings") if change.after and change.type == NODE_POOL else None
    blue_green = settings.get("blueGreenSettings") if isinstance(settings, dict) else None
    return isinstance(blue_green, dict) and "autoscaledRolloutPolicy" in blue_green


def _removed_zones(change: Change) -> list[str]:
    """Return the zones that a GKE node pool loses. Unknown zones are not counted."""
    if change.type != NODE_POOL or change.before is None or change.after is None:
        return []
    before, after = (each.inputs.get("nodeLocations") for each in (change.before, change.after))
    if not isinstance(before, list) or not isinstance(after, list) or not all(isinstance(each, str) for each in after):
        return []
    return sorted(str(each) for each in before if each not in after)


def _starts_unproven(state: State | None) -> bool:
    """Return True if new nodes of a group have the taint that only a check of their GPUs removes."""
    taints = as_list(state.inputs.get("taints")) if state else []
    of_gke = as_list(as_map(state.inputs.get("nodeConfig")).get("taints")) if state else []
    return any(as_map(each).get("key") == UNPROVEN_KEY for each in (*taints, *of_gke))


def _differs(before: Any, after: Any) -> bool:
    """Return True if a value changes. Maps and lists do not count.

    A new value that is known only after the update counts as changed.
    """
    return not isinstance(after, dict | list) and before != after


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


GATE = "gpu-ci:gcp:SmokeGate"
"""The resource that checks an instance template on Google Cloud."""
_GATES = (GATE, "gpu-ci:aws:SmokeGate")
SMOKE_JOB = "gpu-ci:kubernetes:SmokeJob"
"""The component on Kubernetes, whose Job runs the check."""
_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
"""Steps of Cloud Build start machines from a template, without a group."""
_JOB = "kubernetes:batch/v1:Job"


def is_gate(state: State) -> bool:
    return state.type in _GATES or (state.type == _JOB and type_of(state.parent) == SMOKE_JOB)


def check_gates(stack_states: StackStates) -> Iterator[Finding]:
    """Check all resources, because the engine may report no change for a resource that loses its gate."""
    reported = set()
    for change in stack_states.changes:
        if job_resource_of(change) is None:
            continue
        if change.before is None or change.after is None or change.resource.operation == Operation.DELETE:
            continue
        if _gated(change.before, stack_states.before) and not _gated(change.after, stack_states.after):
            reported.add(change.resource.component)
            yield GATE_REMOVED.found(change, f"{change.name} no longer waits for a check of its GPUs")
    for change in stack_states.changes:
        if _is_gone(change, stack_states, reported):
            pool = f"the pool {change.resource.component}".rstrip()
            text = f"{change.name} is deleted, but {pool} stays: its GPUs are no longer checked"
            yield GATE_REMOVED.found(change, text)


def _is_gone(change: Change, stack_states: StackStates, reported: set[str]) -> bool:
    """Return True if a gate is deleted without a new one, while the machines of its pool or their template stay."""
    component = change.resource.component
    if change.resource.operation != Operation.DELETE or change.before is None or not is_gate(change.before):
        return False
    remaining = [
        each
        for each in stack_states.changes
        if each.resource.component == component and each.resource.operation != Operation.DELETE and each.after
    ]
    has_machines = any(job_resource_of(each) or each.resource.type == _TEMPLATE for each in remaining)
    return (
        component not in reported and has_machines and not any(each.after and is_gate(each.after) for each in remaining)
    )


def _gated(state: State, states: Mapping[str, State]) -> bool:
    """Return True if the resource depends on a gate, directly or indirectly."""
    visited, remaining = {state.urn}, list(state.dependencies)
    while remaining:
        urn = remaining.pop()
        dependency = states.get(urn)
        if urn in visited or dependency is None:
            continue
        if is_gate(dependency):
            return True
        visited.add(urn)
        remaining += dependency.dependencies
    return False
