"""Workflow runs and their jobs at the sandbox's GitHub: queue, cancel, rerun."""

from __future__ import annotations

import pytest
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.github.actions.conftest import KERNELS, MANAGER, RUNNERS, Hub

RUNS = f"{KERNELS}/actions/runs"


def statuses(hub: Hub, status: str) -> list[int]:
    return [one["id"] for one in hub.get(f"{RUNS}?status={status}")["workflow_runs"]]


def test_a_queued_job_is_found_through_its_run(hub: Hub) -> None:
    run, (job,) = hub.queue(labels=("self-hosted", "gpu", "l4"))
    assert statuses(hub, "queued") == [run]
    assert statuses(hub, "in_progress") == []
    (found,) = hub.get(f"{RUNS}/{run}/jobs")["jobs"]
    assert (found["id"], found["status"], found["conclusion"], found["run_attempt"]) == (job, "queued", None, 1)
    assert found["labels"] == ["self-hosted", "gpu", "l4"]
    assert found["created_at"] == found["started_at"] == "2027-01-15T08:00:00Z"
    assert hub.job(job) == found


def test_a_list_may_end_with_the_runs_of_a_time(hub: Hub) -> None:
    runs = []
    for _ in range(3):
        runs.append(hub.queue()[0])
        hub.unix += 1
    newest = hub.get(f"{RUNS}?status=queued")["workflow_runs"]
    assert [one["id"] for one in newest] == runs[::-1]
    before = hub.get(f"{RUNS}?status=queued&created=%3C%3D{newest[1]['created_at']}")
    assert [one["id"] for one in before["workflow_runs"]] == [runs[1], runs[0]]


@pytest.mark.parametrize("status", [502, 301, 404])
def test_a_planted_fault_has_the_status_at_its_begin_and_a_path(hub: Hub, world: World, status: int) -> None:
    hub.queue(repository="website")
    world.add_fault(Fault("refuse", on=f"{RUNS}*", message=f"{status} planted"))
    assert hub.ask("GET", f"{RUNS}?status=queued").status == status
    assert hub.ask("GET", "/repos/acme/website/actions/runs?status=queued").status == 200


def test_a_run_is_in_progress_from_its_first_job_to_its_last(hub: Hub) -> None:
    run, (first, second) = hub.queue("build", "test")
    machine = hub.runner().connect()
    assert machine.take() == first
    assert statuses(hub, "in_progress") == [run]
    machine.end(first)
    assert (hub.run(run)["status"], hub.job(second)["status"]) == ("in_progress", "queued")
    other = hub.runner("vm-2").connect()
    other.end(other.take(), "failure")
    assert (hub.run(run)["status"], hub.run(run)["conclusion"]) == ("completed", "failure")
    assert statuses(hub, "completed") == statuses(hub, "failure") == [run]


def test_a_running_job_is_cancelled_by_its_runner(hub: Hub) -> None:
    run, (job,) = hub.queue()
    machine = hub.runner().connect()
    machine.take()
    assert machine.ask("GET", f"job/{job}").body == {"cancelled": False}
    assert hub.ask("POST", f"{RUNS}/{run}/cancel").status == 202
    assert machine.ask("GET", f"job/{job}").body == {"cancelled": True}
    assert hub.job(job)["status"] == "in_progress"
    machine.end(job, "cancelled")
    assert hub.job(job)["conclusion"] == "cancelled"


def failed(hub: Hub) -> tuple[int, list[int]]:
    """A run of three jobs, of which the first succeeded and the others failed."""
    run, jobs = hub.queue("one", "two", "three")
    for at, conclusion in enumerate(("success", "failure", "failure")):
        machine = hub.runner(f"vm-{run}-{at}").connect()
        machine.end(machine.take(), conclusion)
    return run, jobs


def test_failed_jobs_run_again_under_new_ids_in_the_next_attempt(hub: Hub) -> None:
    run, jobs = failed(hub)
    assert hub.ask("POST", f"{RUNS}/{run}/rerun-failed-jobs")[:2] == (201, {})
    found = hub.run(run)
    assert (found["id"], found["run_attempt"], found["status"], found["conclusion"]) == (run, 2, "in_progress", None)
    latest = hub.get(f"{RUNS}/{run}/jobs?filter=latest")["jobs"]
    assert [(one["name"], one["run_attempt"], one["status"]) for one in latest] == [
        ("one", 1, "completed"),
        ("two", 2, "queued"),
        ("three", 2, "queued"),
    ]
    assert not set(jobs[1:]) & {one["id"] for one in latest}
    every = hub.get(f"{RUNS}/{run}/jobs?filter=all")["jobs"]
    assert [one["id"] for one in every if one["run_attempt"] == 1] == jobs
    assert hub.job(jobs[1])["conclusion"] == "failure"


def test_a_second_job_of_a_run_runs_again_only_after_the_first(hub: Hub) -> None:
    run, jobs = failed(hub)
    assert hub.ask("POST", f"{KERNELS}/actions/jobs/{jobs[1]}/rerun").status == 201
    assert hub.ask("POST", f"{KERNELS}/actions/jobs/{jobs[2]}/rerun").status == 403
    machine = hub.runner().connect()
    machine.end(machine.take())
    assert hub.run(run)["status"] == "completed"
    assert hub.ask("POST", f"{KERNELS}/actions/jobs/{jobs[2]}/rerun").status == 201
    assert hub.run(run)["run_attempt"] == 3


def test_a_token_lists_its_repositories(hub: Hub) -> None:
    hub.queue()
    hub.queue(repository="website")
    found = hub.get("/installation/repositories")
    assert sorted(one["full_name"] for one in found["repositories"]) == ["acme/kernels", "acme/website"]
    assert (found["total_count"], found["repository_selection"]) == (2, "all")
    found = hub.get("/installation/repositories", token=hub.new_token(repositories=["kernels"]))
    assert [one["full_name"] for one in found["repositories"]] == ["acme/kernels"]
    assert found["repository_selection"] == "selected"


NEEDED = [
    ("GET", RUNS, "actions", "read"),
    ("GET", f"{RUNS}/1", "actions", "read"),
    ("GET", f"{RUNS}/1/jobs", "actions", "read"),
    ("POST", f"{KERNELS}/actions/jobs/1/rerun", "actions", "write"),
    ("POST", f"{RUNS}/1/rerun-failed-jobs", "actions", "write"),
    ("POST", f"{RUNS}/1/cancel", "actions", "write"),
    ("POST", f"{KERNELS}/check-runs", "checks", "write"),
    ("GET", "/orgs/acme/actions/runner-groups", "organization_self_hosted_runners", "read"),
    ("GET", "/orgs/acme/actions/runner-groups/1/repositories", "organization_self_hosted_runners", "read"),
    ("GET", "/orgs/acme/actions/runner-groups/1/runners", "organization_self_hosted_runners", "read"),
    ("GET", RUNNERS, "organization_self_hosted_runners", "read"),
    ("DELETE", f"{RUNNERS}/1", "organization_self_hosted_runners", "write"),
    ("POST", f"{RUNNERS}/generate-jitconfig", "organization_self_hosted_runners", "write"),
    ("GET", f"{KERNELS}/actions/runners", "administration", "read"),
    ("DELETE", f"{KERNELS}/actions/runners/1", "administration", "write"),
    ("POST", f"{KERNELS}/actions/runners/generate-jitconfig", "administration", "write"),
]


@pytest.mark.parametrize(("method", "path", "permission", "level"), NEEDED)
def test_a_call_needs_its_permission_and_no_other(
    world: World, method: str, path: str, permission: str, level: str
) -> None:
    every = {**MANAGER, "administration": "write"}
    less = "read" if level == "write" else ""
    lacking = {key: value for key, value in {**every, permission: less}.items() if value}
    reply = Hub(world, lacking).ask(method, path)
    assert (reply.status, reply.message) == (403, "Resource not accessible by integration")
    assert reply.headers["X-Accepted-GitHub-Permissions"] == f"{permission}={level}"
    assert Hub(world, {permission: level}).ask(method, path).status != 403
