"""The rule `gate-removed`: a pool stays, but its GPUs are no longer checked.

A gate is the resource that fails a deployment unless the smoke check passes on a GPU of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...engine.digest import type_of
from ...engine.states import Change, StackStates, State
from ...model import Finding, Operation
from ..danger_rule import GATE_REMOVED
from . import jobs

GATE = "gpu-ci:gcp:SmokeGate"
"""The component that checks an instance template on Google Cloud."""
SMOKE_JOB = "gpu-ci:kubernetes:SmokeJob"
"""The component on Kubernetes, whose Job runs the check."""
_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
"""Steps of Cloud Build start machines from a template, without a group."""
_JOB = "kubernetes:batch/v1:Job"


def is_gate(state: State) -> bool:
    return state.type == GATE or (state.type == _JOB and type_of(state.parent) == SMOKE_JOB)


def check(stack_states: StackStates) -> Iterator[Finding]:
    """Check all resources, because the engine may report no change for a resource that loses its gate."""
    reported = set()
    for change in stack_states.changes:
        if jobs.job_resource_of(change) is None:
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
    has_machines = any(jobs.job_resource_of(each) or each.resource.type == _TEMPLATE for each in remaining)
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
