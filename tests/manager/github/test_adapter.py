"""The manager's adapter of GitHub: results of a sweep, and requests about runners and runs."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from gpu_manager.github import sweep
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.model import Job, JobKey, Report, Run, RunKey, Runner
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
    assert view.runners == (
        Runner(7, "l4-0a1b2c3d", True, True, frozenset({"gpu"})),
        Runner(8, "l4-ffffffff", False, False, frozenset({"gpu"})),
    )
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
        runner_groups=frozenset({"gpu"}),
        event="push",
        branch="main",
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


def two_repositories(github: FakeGithub) -> None:
    github.group_repositories[2] = [repository("kernels"), repository("models")]
    github.runs = {"kernels": [run(1, "queued")], "models": [run(2, "queued")]}
    github.jobs = {1: [job(11, 1, "queued")], 2: [job(22, 2, "queued")]}


@pytest.mark.parametrize(
    "fault",
    [
        httpx2.Response(502),
        httpx2.Response(301, json={"message": "Moved Permanently"}),
        httpx2.Response(404, json={"message": "Not Found"}),
        httpx2.Response(200, json={"total_count": 1, "workflow_runs": [{"id": 2, "status": "queued"}]}),
    ],
)
def test_a_repository_that_github_does_not_list_stops_no_other_and_keeps_its_last_jobs_for_a_while(
    github: FakeGithub, manager: GithubAdapter, tmp_path: Path, fault: httpx2.Response
) -> None:
    two_repositories(github)
    assert ids(manager.observe(()).jobs) == [11, 22]
    github.faults["/repos/example-org/models/actions/runs"] = lambda _: fault
    for _ in range(9):
        view = manager.observe(())
        assert (ids(view.jobs), view.unread) == ([11, 22], frozenset({"example-org/models"}))
        assert [each.startswith("example-org/models: not read: ") for each in view.problems] == [True]
    assert ids(manager.observe(()).jobs) == [11]
    fresh = adapter(github, tmp_path)
    assert ids(fresh.observe(()).jobs) == [11]
    github.faults.clear()
    view = fresh.observe(())
    assert (ids(view.jobs), view.unread, view.problems) == ([11, 22], frozenset(), ())
    fresh.close()


def test_a_single_server_error_is_repeated_once(github: FakeGithub, manager: GithubAdapter) -> None:
    two_repositories(github)
    errors = [httpx2.Response(502)]
    github.faults["/repos/example-org/models/actions/runs"] = lambda _: errors.pop() if errors else None
    view = manager.observe(())
    assert (ids(view.jobs), view.problems) == ([11, 22], ())


def test_if_github_answers_only_with_errors_the_sweep_ends_early(github: FakeGithub, manager: GithubAdapter) -> None:
    github.group_repositories[2] = [repository(f"repository-{number}") for number in range(200)]
    github.faults["/actions/runs"] = lambda _: httpx2.Response(502)
    view = manager.observe(())
    assert (view.jobs, view.runners) == (None, ())
    assert sum("/actions/runs" in each for each in github.asked) < 130


def test_of_more_runs_than_a_list_may_have_the_oldest_are_read(
    github: FakeGithub, manager: GithubAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "MOST_RUNS", 20)
    two_repositories(github)
    github.runs["models"] = [
        run(number, "queued", created_at=f"2026-11-24T10:{number // 60:02}:{number % 60:02}Z")
        for number in range(1001, 2102)
    ]
    github.jobs |= {number: [job(number, number, "queued")] for number in range(1001, 2102)}
    view = manager.observe(())
    assert (ids(view.jobs), view.unread) == ([11, *range(1001, 1021)], frozenset())
    assert view.problems == ("example-org/models: has 1101 active runs; this sweep reads the oldest 20",)


def test_a_repository_with_large_runs_uses_a_bounded_part_of_the_memory(
    github: FakeGithub, manager: GithubAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "MOST_JOBS", 1000)
    two_repositories(github)
    github.runs["models"] = [run(number, "queued") for number in range(100, 150)]
    github.jobs |= {
        number: [job(1000 * number + each, number, "queued") for each in range(256)] for number in range(100, 150)
    }
    view = manager.observe(())
    # Ten requests run at the same time.
    assert 1001 <= len(ids(view.jobs)) <= 1001 + 11 * 256
    assert view.problems == ("example-org/models: has more than 1000 jobs; this sweep reads no further run of it",)
    kept = [each for page in manager._client._cache.values() for each in page.answer.value[1].values()]
    assert {type(each) for each in kept if not isinstance(each, tuple)} == {Job}


@pytest.mark.parametrize("field", ["labels", "created_at", "status", "run_id"])
def test_a_job_without_a_field_makes_the_jobs_of_its_repository_unknown(
    github: FakeGithub, manager: GithubAdapter, field: str
) -> None:
    two_repositories(github)
    github.jobs[2] = [job(22, 2, "queued"), job(23, 2, "queued")]
    del github.jobs[2][0][field]
    view = manager.observe(())
    assert (ids(view.jobs), view.unread) == ([11], frozenset({"example-org/models"}))
    [problem] = view.problems
    assert problem.endswith(f"page 1 of GitHub's answer is not a list of jobs: KeyError: '{field}'")


KERNELS_CI = "example-org/kernels/.github/workflows/ci.yml"
CALLED = "example-org/shared/.github/workflows/gpu.yml"


@pytest.mark.parametrize(
    ("selected", "more", "allowed"),
    [
        (f"{KERNELS_CI}@refs/heads/main", {}, True),
        (f"{KERNELS_CI}@main", {}, True),
        (f"{KERNELS_CI}@009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d", {}, True),
        (f"{KERNELS_CI}@refs/tags/v1", {"head_branch": "v1"}, True),
        (f"{KERNELS_CI}@refs/heads/main", {"head_branch": "feature"}, False),
        # The workflow of a pull request runs at refs/pull/NUMBER/merge.
        (f"{KERNELS_CI}@refs/heads/main", {"event": "pull_request"}, False),
        # The ref of other events is not in the answer.
        (f"{KERNELS_CI}@refs/heads/main", {"event": "issue_comment", "head_branch": "feature"}, True),
        (f"{KERNELS_CI}@refs/heads/main", {"path": ".github/workflows/other.yml"}, False),
        (f"{CALLED}@refs/heads/main", {"referenced_workflows": [{"path": f"{CALLED}@main", "sha": "1f"}]}, True),
        (f"{CALLED}@refs/heads/main", {}, False),
    ],
)
def test_a_job_may_use_a_group_only_if_its_workflow_is_selected(
    github: FakeGithub, manager: GithubAdapter, selected: str, more: dict[str, object], allowed: bool
) -> None:
    github.groups = [group(2, "gpu", restricted_to_workflows=True, selected_workflows=[selected])]
    github.runs["kernels"] = [run(1, "queued", **more)]
    github.jobs[1] = [job(11, 1, "queued")]
    [found] = manager.observe(()).jobs or ()
    assert found.runner_groups == frozenset({"gpu"} if allowed else ())


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


@pytest.mark.parametrize(("status", "code"), [("queued", 202), ("queued", 409), ("in_progress", 0), ("queued", 403)])
def test_only_the_run_of_a_job_that_is_still_queued_is_cancelled(
    github: FakeGithub, manager: GithubAdapter, status: str, code: int
) -> None:
    read, cancel = (
        f"{method} /repos/{KERNELS}/actions/{path}" for method, path in (("GET", "jobs/55"), ("POST", "runs/5/cancel"))
    )
    github.faults[read] = lambda _: httpx2.Response(200, json={"status": status})
    github.faults[cancel] = lambda _: httpx2.Response(code, json={"message": "Resource not accessible by integration"})
    key = JobKey(KERNELS, 5, 55, 1)
    if code == 403:
        with pytest.raises(Refused, match="not accessible"):
            manager.cancel(key)
    else:
        assert manager.cancel(key) is bool(code)
    assert (cancel in github.asked) is bool(code)


REPORT = Report(JobKey(KERNELS, 1, 11, 1), "GPU fault (Xid 79), not your change", "Job 11 failed.")


def test_a_check_run_is_neutral_and_its_token_may_do_nothing_else(github: FakeGithub, manager: GithubAdapter) -> None:
    """GitHub refuses a token with a permission that the App lacks, so the sweep must not need this one."""
    github.runs["kernels"] = [run(1, "completed", html_url="https://github.example/runs/1")]
    bodies = []

    def kept(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(201, json={})

    github.faults[f"POST /repos/{KERNELS}/check-runs"] = kept
    manager.check_run(REPORT)
    assert bodies == [
        {
            "name": "gpu-ci/machine",
            "head_sha": run(1, "completed")["head_sha"],
            "details_url": "https://github.example/runs/1/job/11",
            "conclusion": "neutral",
            "output": {"title": REPORT.title, "summary": REPORT.summary},
        }
    ]
    assert [set(each["permissions"]) for each in github.permissions] == [
        {"actions", "organization_self_hosted_runners"},
        {"checks"},
    ]


@pytest.mark.parametrize(("exists", "problem"), [(True, "not accessible by integration"), (False, "run 1 is gone")])
def test_a_check_run_may_be_refused(github: FakeGithub, manager: GithubAdapter, exists: bool, problem: str) -> None:
    github.runs["kernels"] = [run(1, "completed", html_url="https://github.example/runs/1")] if exists else []
    message = {"message": "Resource not accessible by integration"}
    github.faults[f"POST /repos/{KERNELS}/check-runs"] = lambda _: httpx2.Response(403, json=message)
    with pytest.raises(Refused, match=problem):
        manager.check_run(REPORT)


def test_texts_of_a_workflow_contain_no_terminal_control_characters(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(1, "queued")]
    github.jobs[1] = [job(11, 1, "queued", "gpu\x1b[2J", name="a\x1b[2J\nb", workflow_name="c\rd")]
    [found] = manager.observe(()).jobs or ()
    assert (found.name, found.workflow, found.labels) == ("a [2J b", "c d", frozenset({"gpu [2j"}))


def test_a_limit_is_waited_for_one_hour_at_most() -> None:
    limits = RateLimits(lambda: 0.0)
    limits.record_answer(429, {"retry-after": "9" * 400}, "", 0.0)
    assert limits.wait_sec() == 3600


def test_a_message_begins_a_sweep_as_early_as_the_requests_of_the_last_one_allow() -> None:
    now = [0.0]
    limits = RateLimits(lambda: now[0])
    limits.begin_sweep()
    for _ in range(60):
        limits.record_answer(200, {}, "", 0.0)
    found = []
    for now[0] in (1.0, 4.9, 5.0):
        found.append(limits.may_sweep())
    limits.begin_sweep()
    for now[0] in (5.9, 6.0):
        found.append(limits.may_sweep())
    limits.record_answer(429, {"retry-after": "9"}, "", 0.0)
    assert (found, limits.may_sweep()) == ([False, False, True, False, True], False)


def test_the_jobs_that_a_runner_ran_have_githubs_times_of_all_attempts(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    github.jobs[1] = [
        job(11, 1, "completed", conclusion="failure", runner_name="l4-a-7", completed_at="2026-11-24T10:09:05Z"),
        job(12, 1, "in_progress", runner_name="l4-b-8", run_attempt=2),
        job(13, 1, "queued"),
    ]
    first, second = manager.ran(RunKey(KERNELS, 1))
    assert (first.runner_name, first.job.completed, first.job.conclusion) == (
        "l4-a-7",
        datetime(2026, 11, 24, 10, 9, 5, tzinfo=UTC),
        "failure",
    )
    assert (first.job.repository, first.job.run, first.job.id, first.job.workflow) == (KERNELS, 1, 11, "CI")
    assert (second.runner_name, second.job.attempt, second.job.completed) == ("l4-b-8", 2, None)
    github.faults["/jobs"] = lambda _: httpx2.Response(404, json={"message": "Not Found"})
    assert manager.ran(RunKey(KERNELS, 2)) == ()
    github.faults.clear()
    asked = len(github.asked)
    for forged in ("other-org/kernels", "example-org/..", "../.."):
        assert manager.ran(RunKey(forged, 1)) == ()
    assert len(github.asked) == asked
