"""Runners of the sandbox's GitHub: which job each gets, and when it is online, busy or lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.world.store import Record, World

from tests.sandbox.providers.github.actions.conftest import KERNELS, RUNNERS, Hub

LOST = "The self-hosted runner lost communication with the server."


def test_a_registration_has_what_the_runner_needs_to_ask_for_its_job(hub: Hub) -> None:
    machine = hub.runner("vm-1")
    assert machine.files[".runner"] == {
        "agentId": machine.id,
        "agentName": "vm-1",
        "serverUrl": "https://api.github.com",
        "ephemeral": True,
        "workFolder": "_work",
    }
    assert list(machine.files[".credentials"]) == ["token"]


def test_a_credential_is_in_no_file_of_the_world(hub: Hub, tmp_path: Path) -> None:
    credential = hub.runner().connect().files[".credentials"]["token"]
    assert all(credential.encode() not in file.read_bytes() for file in tmp_path.glob("world.db*"))


def test_a_runner_gets_its_job_runs_it_and_is_unregistered(hub: Hub) -> None:
    run, (job,) = hub.queue(labels=("GPU", "l4"))
    machine = hub.runner("vm-1", labels=("self-hosted", "gpu", "L4"))
    assert machine.state == ("offline", False)
    machine.connect()
    assert machine.state == ("online", False)
    hub.unix += 5
    message = machine.ask("GET", "job").body
    assert (message["job_id"], message["name"]) == (job, "test")
    assert message["steps"] == [{"name": "Run true", "run": "true"}]
    environment = message["env"]
    assert (environment["GITHUB_REPOSITORY"], environment["GITHUB_RUN_ID"]) == ("acme/kernels", str(run))
    assert environment["GITHUB_SHA"] == hub.run(run)["head_sha"]
    found = hub.job(job)
    assert (found["status"], found["runner_name"], found["runner_group_name"]) == ("in_progress", "vm-1", "Default")
    assert (found["created_at"], found["started_at"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:05Z")
    assert machine.state == ("online", True)
    assert machine.end(job, log="x" * 70_000).status == 204
    found = hub.job(job)
    assert (found["conclusion"], found["completed_at"]) == ("success", "2027-01-15T08:00:05Z")
    assert found["steps"] == [{"name": "Run true", "conclusion": "success", "number": 1, "status": "completed"}]
    assert len((hub.api.actions.job(job) or {})["log"]) == 65_536
    assert hub.get(RUNNERS)["runners"] == []
    assert machine.ask("GET", "job").status == 401


def test_a_lost_answer_gives_the_same_job_again(hub: Hub) -> None:
    hub.queue()
    hub.queue()
    machine = hub.runner().connect()
    assert machine.take() == machine.take()


def test_runners_that_ask_at_the_same_time_get_every_job_once(hub: Hub) -> None:
    _, jobs = hub.queue(*(f"test-{at}" for at in range(8)))
    machines = [hub.runner(f"vm-{at}") for at in range(4)]
    with ThreadPoolExecutor(8) as threads:
        asked = list(threads.map(lambda machine: machine.connect().take(), machines * 2))
    assert sorted(set(asked)) == jobs[:4]
    assert [asked.count(one) for one in jobs[:4]] == [2, 2, 2, 2]


@pytest.mark.parametrize(("visibility", "served"), [("selected", False), ("all", True), ("private", True)])
def test_a_runner_serves_the_repositories_of_its_group(hub: Hub, visibility: str, served: bool) -> None:
    hub.group(7, "kernels", visibility=visibility)
    _, (theirs,) = hub.queue(repository="website")
    _, (ours,) = hub.queue()
    assert hub.runner(group=7).connect().take() == (theirs if served else ours)
    names = [one["name"] for one in hub.get("/orgs/acme/actions/runner-groups/7/repositories")["repositories"]]
    assert sorted(names) == (["kernels", "website"] if served else ["kernels"])


@pytest.mark.parametrize(
    ("visibility", "public", "served"),
    [("all", False, False), ("all", True, True), ("selected", True, True), ("private", True, False)],
)
def test_a_public_repository_is_served_by_a_group_that_allows_it(
    hub: Hub, visibility: str, public: bool, served: bool
) -> None:
    found = {"name": "open", "fullName": "acme/open", "repoId": 5.0, "visibility": "public"}
    hub.world.insert(Record(types.REPOSITORY, "open", "open", "", {}, found))
    hub.group(7, "open", public=public, visibility=visibility)
    _, (job,) = hub.queue(repository="open")
    assert hub.runner(group=7).connect().take() == (job if served else 0)


def test_a_busy_runner_is_not_deleted(hub: Hub) -> None:
    hub.queue()
    machine = hub.runner("vm-1").connect()
    machine.take()
    reply = hub.ask("DELETE", f"{RUNNERS}/{machine.id}")
    assert (reply.status, reply.message) == (422, 'Bad request - Runner "vm-1" is still running a job')
    assert machine.state == ("online", True)


def test_a_runner_that_asks_nothing_for_10_seconds_is_offline(hub: Hub) -> None:
    machine = hub.runner().connect()
    hub.unix += 10
    assert machine.state == ("online", False)
    hub.unix += 1
    assert machine.state == ("offline", False)
    machine.take()
    assert machine.state == ("online", False)


def test_the_job_of_a_runner_that_is_silent_for_30_seconds_fails(hub: Hub) -> None:
    run, (job,) = hub.queue()
    machine = hub.runner().connect()
    machine.take()
    hub.unix += 30
    assert (hub.job(job)["status"], machine.state) == ("in_progress", ("offline", True))
    assert hub.ask("DELETE", f"{RUNNERS}/{machine.id}").status == 422
    hub.unix += 1
    assert (hub.job(job)["status"], hub.job(job)["conclusion"]) == ("completed", "failure")
    assert (hub.api.actions.job(job) or {})["log"] == LOST
    assert (hub.run(run)["conclusion"], machine.state) == ("failure", ("offline", False))
    assert machine.end(job).status == 404
    hub.queue()
    assert machine.take() == 0


def test_the_runner_of_a_repository_serves_that_one_alone(world: World) -> None:
    hub = Hub(world, {"administration": "write", "actions": "read"})
    body = {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"]}
    path = f"{KERNELS}/actions/runners"
    assert hub.ask("POST", f"{path}/generate-jitconfig", {**body, "runner_group_id": 2}).status == 404
    assert hub.ask("POST", f"{path}/generate-jitconfig", body).status == 201
    (row,) = hub.api.actions.runners("repos/acme/kernels")
    hub.queue(repository="website")
    _, (job,) = hub.queue()
    found = hub.api.actions.assign(row.outputs["id"], "repos/acme/kernels")
    assert found is not None
    assert found.outputs["id"] == job


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({}, True),
        ({"workflow": "Other"}, False),
    ],
)
def test_a_runner_of_a_group_for_one_workflow_gets_no_other_job(
    hub: Hub, options: dict[str, Any], served: bool
) -> None:
    hub.group(7, "kernels", workflow="acme/kernels/.github/workflows/ci.yml@refs/heads/main")
    _, [job] = hub.queue(**options)
    assert hub.runner(group=7).connect().take() == (job if served else 0)


@pytest.mark.parametrize(("wanted", "served"), [("", True), ("group-7", True), ("Default", False)])
@pytest.mark.parametrize("labels", [("gpu",), ()])
def test_a_job_that_names_a_group_runs_only_there_and_its_answer_does_not_show_the_group(
    hub: Hub, wanted: str, served: bool, labels: tuple[str, ...]
) -> None:
    hub.group(7, "kernels")
    _, [job] = hub.queue(labels=labels, group=wanted)
    assert hub.job(job)["labels"] == list(labels)
    assert hub.job(job)["runner_group_name"] is None
    assert hub.runner(group=7).connect().take() == (job if served else 0)


@pytest.mark.parametrize(("version", "status"), [("2.334.0", 403), ("2.338.0", 200)])
def test_a_runner_version_that_github_refuses_gets_no_session(hub: Hub, version: str, status: int) -> None:
    reply = hub.runner().ask("POST", "session", {"version": version})
    assert reply.status == status
    if status == 403:
        assert reply.message == "Runner version v2.334.0 is deprecated and cannot receive messages."
