"""A waiting job, and the Kubernetes objects that determine if it gets a runner, as printed by kubectl."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


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
