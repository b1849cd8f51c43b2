"""Reads the job with `gh` and the cluster with `kubectl`, with the user's own credentials."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from gpu_ci.cli import programs
from gpu_ci.kubernetes.gpu_nodes import POOL_LABEL

from ..job_address import JobAddress
from ..model import printable
from .reasons import Cluster, Object, WaitingJob, name_of, namespace_of, scale_set_of

_GROUP = "actions.github.com"
# GitHub lists at most 100 jobs a page. A matrix has up to 256 jobs, and a run may have several matrices.
_PER_PAGE, _MOST_PAGES = 100, 50
_UNFINISHED = ("queued", "waiting", "pending", "requested", "in_progress")


def gh_knows(host: str) -> bool:
    """Return True if `gh` is logged in to the host. It sends nothing to any other host. Raises NotAskedError without
    `gh`.

    pkg/cmd/auth/status/status.go of github.com/cli/cli compares the host with the hosts of its configuration and
    GH_HOST.
    """
    return programs.run(["gh", "auth", "status", "--hostname", host]).code == 0


def jobs_of(place: JobAddress) -> list[WaitingJob]:
    """Return the job, or the jobs of the run that have not ended. Raises NotAskedError if `gh` fails."""
    command, repository = ["gh", "api", "--hostname", place.host], place.repository
    if place.job_id is not None:
        return [_job(programs.run_json([*command, f"repos/{repository}/actions/jobs/{place.job_id}"]), repository)]
    run = f"repos/{repository}/actions/runs/{place.run_id}"
    which = "/jobs?filter=latest&" if place.attempt is None else f"/attempts/{place.attempt}/jobs?"
    path = f"{run}{which}per_page={_PER_PAGE}"
    found: list[dict[str, Any]] = []
    for page in range(1, _MOST_PAGES + 1):
        answer = programs.run_json([*command, f"{path}&page={page}"])
        found += answer["jobs"]
        if page * _PER_PAGE >= answer["total_count"]:
            break
    return [_job(each, repository) for each in found if each["status"] in _UNFINISHED]


def _job(found: dict[str, Any], repository: str) -> WaitingJob:
    created = datetime.fromisoformat(found["created_at"])
    return WaitingJob(
        runs_on=tuple(printable(label) for label in found["labels"]),
        run_id=found["run_id"],
        job_id=found["id"],
        repository=repository,
        name=printable(found["name"]),
        workflow=printable(found.get("workflow_name") or ""),
        status=found["status"],
        conclusion=found.get("conclusion") or "",
        runner_name=printable(found.get("runner_name") or ""),
        age_sec=(datetime.now(UTC) - created).total_seconds(),
    )


def cluster_of(job: WaitingJob, context: str) -> Cluster:
    """Return the objects of the job's scale set. Raises NotAskedError if `kubectl` fails."""

    def get(kind: str, *where: str) -> list[Object]:
        chosen = ["--context", context] if context else []
        return list(programs.run_json(["kubectl", *chosen, "get", kind, *where, "--output", "json"])["items"])

    sets = get(f"autoscalingrunnersets.{_GROUP}", "--all-namespaces")
    scale_set = scale_set_of(job, Cluster(sets))
    if scale_set is None:
        return Cluster(sets)
    listeners = get(f"autoscalinglisteners.{_GROUP}", "--all-namespaces")
    name, namespace = name_of(scale_set), namespace_of(scale_set)
    ours = [each for each in listeners if each["spec"].get("autoscalingRunnerSetName") == name]
    namespaces = dict.fromkeys([namespace, *map(namespace_of, ours)])
    nodes: list[Object] = []
    with suppress(programs.NotAskedError):  # a user without rights in the whole cluster
        nodes = get("nodes", "--selector", POOL_LABEL)
    return Cluster(
        scale_sets=sets,
        listeners=listeners,
        runners=get(f"ephemeralrunners.{_GROUP}", "--namespace", namespace),
        pods=[pod for each in namespaces for pod in get("pods", "--namespace", each)],
        quotas=get("resourcequotas", "--namespace", namespace),
        events=[event for each in namespaces for event in get("events", "--namespace", each)],
        nodes=nodes,
    )
