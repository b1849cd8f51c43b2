"""The manager's adapter of GitHub: results of a sweep, and requests about runners and runs."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.model import CommitStatus, Job, JobKey, Run, RunKey, Runner
from gpu_manager.ports import Github, Refused, Unavailable

from tests.manager.github.fake_github import FakeGithub, adapter, group, job, repository, run, runner

KERNELS = "example-org/kernels"
AT = datetime(2026, 11, 24, 10, 0, 5, tzinfo=UTC).timestamp()


def ids(jobs: tuple[Job, ...] | None) -> list[int]:
    assert jobs is not None
    return sorted(each.key.job_id for each in jobs)


def test_a_sweep_sees_waiting_and_running_jobs_and_the_groups_runners(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    port: Github = manager
    github.runs["kernels"] = [run(1, "in_progress")]
    github.jobs[1] = [
        job(11, 1, "queued", "self-hosted", "GPU", "L4", run_attempt=2),
        job(12, 1, "in_progress", runner_name="l4-0a1b2c3d", runner_id=7),
        job(13, 1, "waiting"),
        job(14, 1, "completed", conclusion="failure"),
        job(15, 1, "pending"),
        job(16, 1, "requested"),
    ]
    github.runners[2] = [runner(7, "l4-0a1b2c3d", busy=True), runner(8, "l4-ffffffff", online=False)]
    view = port.observe(())
    assert view.problems == ()
    assert view.unix == github.clock.unix_now
    assert view.runners == (Runner(7, "l4-0a1b2c3d", True, True), Runner(8, "l4-ffffffff", False, False))
    assert ids(view.jobs) == [11, 12, 13]
    assert view.jobs is not None
    assert view.jobs[0] == Job(
        JobKey(KERNELS, 1, 11, 2),
        frozenset({"self-hosted", "gpu", "l4"}),
        "queued",
        AT,
        name="gpu tests",
        workflow="CI",
        url="https://github.example/example-org/kernels/actions/runs/1/job/11",
        head_sha="009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d",
        runner_groups=frozenset({"gpu"}),
    )
    assert view.jobs[1].runner_name == "l4-0a1b2c3d"


def test_a_run_that_is_missing_from_all_lists_is_read_by_its_id(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(1, "in_progress")]
    github.jobs[1] = [job(11, 1, "in_progress", runner_name="l4-0a1b2c3d")]
    assert ids(manager.observe(()).jobs) == [11]
    github.listed_runs["kernels", "in_progress"] = []
    assert ids(manager.observe(()).jobs) == [11]
    assert github.asked[-2:] == [
        "GET /repos/example-org/kernels/actions/runs/1",
        "GET /repos/example-org/kernels/actions/runs/1/jobs?filter=latest&per_page=100",
    ]
    github.runs["kernels"] = []
    assert ids(manager.observe(()).jobs) == []


def test_at_most_ten_requests_run_at_the_same_time(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(number, "queued") for number in range(1, 61)]
    here, most, lock = 0, 0, threading.Lock()
    ten = threading.Barrier(10)

    def counted(request: httpx2.Request) -> None:
        nonlocal here, most
        with lock:
            here += 1
            most = max(most, here)
        ten.wait(20)  # 60 requests: six times ten at once, or this breaks
        with lock:
            here -= 1

    github.faults["/jobs?"] = counted
    assert ids(manager.observe(()).jobs) == []
    assert most == 10


def test_a_failed_request_ends_the_sweep(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(number, "queued") for number in range(1, 201)]

    def fail_after_a_while(_: httpx2.Request) -> httpx2.Response:
        time.sleep(0.05)
        return httpx2.Response(500)

    github.faults["/jobs?"] = fail_after_a_while
    github.runners[2] = [runner(7, "l4-0a1b2c3d")]
    view = manager.observe(())
    assert (view.jobs, len(view.problems)) == (None, 1)
    assert view.runners == (Runner(7, "l4-0a1b2c3d", True, False),)
    assert sum("/jobs?" in each for each in github.asked) < 60


@pytest.mark.parametrize("field", ["labels", "created_at", "status", "run_id"])
def test_a_job_without_a_field_makes_all_jobs_unknown(github: FakeGithub, manager: GithubAdapter, field: str) -> None:
    github.runs["kernels"] = [run(1, "queued")]
    github.jobs[1] = [job(11, 1, "queued"), job(12, 1, "queued")]
    del github.jobs[1][0][field]
    view = manager.observe(())
    assert view.jobs is None
    assert view.problems == (f"jobs: a field of GitHub's answer is missing or has another type: KeyError: '{field}'",)


def test_the_repositories_are_those_that_may_use_the_groups(github: FakeGithub, tmp_path: Path) -> None:
    public, archived = repository("public", private=False), repository("archived", archived=True)
    github.groups = [group(2, "chosen"), group(3, "private", "private"), group(4, "open", "all"), group(5, "other")]
    github.groups[1]["allows_public_repositories"] = github.groups[2]["allows_public_repositories"] = True
    github.group_repositories[2] = [repository("kernels"), public, archived]
    github.installation_repositories = [repository("kernels"), repository("models"), public, archived]

    def swept(*groups: str) -> dict[str, set[str]]:
        github.runs = {name: [run(number, "queued")] for number, name in enumerate(("kernels", "models", "public"), 1)}
        github.jobs = {number: [job(number, number, "queued")] for number in (1, 2, 3)}
        manager = adapter(github, tmp_path, groups=groups)
        view = manager.observe(())
        manager.close()
        assert view.problems == ()
        return {each.key.repository.partition("/")[2]: set(each.runner_groups or ()) for each in view.jobs or ()}

    assert swept("chosen") == {"kernels": {"chosen"}}
    assert swept("private") == {"kernels": {"private"}, "models": {"private"}}
    assert swept("open") == {name: {"open"} for name in ("kernels", "models", "public")}
    assert [each for each in github.asked if "archived" in each] == []
    assert swept("chosen", "private") == {"kernels": {"chosen", "private"}, "models": {"private"}}


def test_a_missing_group_is_reported_with_the_existing_groups(github: FakeGithub, tmp_path: Path) -> None:
    manager = adapter(github, tmp_path, groups=["gpu", "gqu"])
    view = manager.observe(())
    manager.close()
    assert (view.jobs, view.runners) == (None, None)
    assert view.problems == ("example-org has no runner group named gqu, only gpu",)


def test_the_state_of_a_lost_jobs_run(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(1, "in_progress"), run(2, "completed", conclusion="failure", run_attempt=2)]
    github.jobs[2] = [
        job(number, 2, "completed", conclusion=conclusion)
        for number, conclusion in enumerate(("success", "failure", "cancelled", "skipped", "timed_out"), 21)
    ]
    keys = [RunKey(KERNELS, number) for number in (1, 2, 3)]
    view = manager.observe(keys)
    created = AT - 5
    assert view.problems == ()
    assert view.runs == {
        keys[0]: Run(keys[0], 1, "in_progress", created_unix=created),
        keys[1]: Run(keys[1], 2, "completed", "failure", created, (22, 23, 25)),
        keys[2]: Run(keys[2], 0, "completed", "deleted"),
    }
    github.faults["/runs/2/jobs"] = lambda _: httpx2.Response(500)
    assert set(manager.observe(keys).runs) == {keys[0], keys[2]}


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (204, "", True),
        (404, "Not Found", True),
        (422, "Runner l4-0a1b2c3d is still running a job", False),
        (403, "Resource not accessible by integration", Refused),
        (500, "", Unavailable),
        (429, "slow down", Unavailable),
        (401, "Bad credentials", Unavailable),
    ],
)
def test_the_removal_of_a_runner_reports_gone_busy_or_unknown(
    github: FakeGithub, manager: GithubAdapter, status: int, message: str, expected: bool | type[Exception]
) -> None:
    github.faults["DELETE /orgs/example-org/actions/runners/7"] = lambda _: httpx2.Response(
        status, json={"message": message}
    )
    if isinstance(expected, bool):
        assert manager.remove_runner(Runner(7, "l4-0a1b2c3d", True, False)) is expected
    else:
        with pytest.raises(expected, match=r"^DELETE /orgs/example-org/actions/runners/7: "):
            manager.remove_runner(Runner(7, "l4-0a1b2c3d", True, False))


@pytest.mark.parametrize(
    ("job_id", "path"),
    [(None, "runs/5/rerun-failed-jobs"), (55, "jobs/55/rerun")],
)
def test_a_rerun_is_of_one_job_or_of_all_failed_ones(
    github: FakeGithub, manager: GithubAdapter, job_id: int | None, path: str
) -> None:
    what = f"POST /repos/example-org/kernels/actions/{path}"
    github.faults[what] = lambda _: httpx2.Response(201, json={})
    manager.rerun(RunKey(KERNELS, 5), job_id)
    assert github.asked[-1] == what
    github.faults[what] = lambda _: httpx2.Response(403, json={"message": "The workflow run is already running"})
    with pytest.raises(Unavailable, match="already running"):
        manager.rerun(RunKey(KERNELS, 5), job_id)
    github.faults[what] = lambda _: httpx2.Response(403, json={"message": "Unable to retry this workflow run"})
    with pytest.raises(Refused, match="Unable to retry"):
        manager.rerun(RunKey(KERNELS, 5), job_id)


def test_a_commit_status_names_us(github: FakeGithub, manager: GithubAdapter) -> None:
    bodies = []

    def kept(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(201, json={})

    github.faults["POST /repos/example-org/kernels/statuses/009b8a"] = kept
    status = CommitStatus(KERNELS, "009b8a", "pending", "at-max", "https://example.com/1")
    manager.commit_status(status)
    body = {"state": "pending", "description": "at-max", "target_url": "https://example.com/1"}
    assert bodies == [{**body, "context": "gpu-ci"}]
    github.faults["POST /repos/example-org/kernels/statuses/009b8a"] = lambda _: httpx2.Response(422)
    with pytest.raises(Refused, match="GitHub answered 422"):
        manager.commit_status(CommitStatus(KERNELS, "009b8a", "pending", "", "https://example.com/1"))


def test_texts_of_a_workflow_contain_no_terminal_control_characters(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(1, "queued")]
    github.jobs[1] = [job(11, 1, "queued", "gpu\x1b[2J", name="a\x1b[2J\nb", workflow_name="c\rd")]
    [found] = manager.observe(()).jobs or ()
    assert (found.name, found.workflow, found.labels) == ("a [2J b", "c d", frozenset({"gpu [2j"}))


def test_a_limit_is_waited_for_one_hour_at_most() -> None:
    limits = RateLimits(lambda: 0.0)
    limits.record_answer(429, {"retry-after": "9" * 400}, "", 0.0)
    assert limits.wait_sec() == 3600
