"""A job, and the objects of a cluster that decide whether it gets a runner, as kubectl prints them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class WaitingJob:
    """What is known of the job. Without an answer of GitHub's that is its runs-on alone."""

    runs_on: tuple[str, ...]
    run_id: int
    job_id: int | None = None
    repository: str = ""
    name: str = ""
    workflow: str = ""
    status: str = "queued"
    """GitHub's word."""
    conclusion: str = ""
    runner_name: str = ""
    age_sec: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """The scale sets of a cluster, and of one of them what belongs to it."""

    scale_sets: list[Object]
    """AutoscalingRunnerSets of all namespaces."""
    listeners: list[Object] = field(default_factory=list)
    """AutoscalingListeners of all namespaces."""
    runners: list[Object] = field(default_factory=list)
    """EphemeralRunners of the scale set's namespace."""
    pods: list[Object] = field(default_factory=list)
    """Pods of that namespace and of the listener's."""
    quotas: list[Object] = field(default_factory=list)
    """ResourceQuotas of the scale set's namespace."""
    events: list[Object] = field(default_factory=list)
    """Of both namespaces."""


@dataclass(frozen=True)
class Explanation:
    """Why a job has no runner, or which one it has."""

    detail: str
    code: str = ""
    """One of the manager's reasons; empty where the job has a runner or has ended."""
    next_step: str = ""
    machine: str = ""
    """The pod that runs the job or starts for it."""


def name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def namespace_of(found: Object) -> str:
    return str(found["metadata"].get("namespace", ""))


def status_of(found: Object) -> dict[str, Any]:
    return dict(found.get("status") or {})
