"""Requests to GitHub: conditions, complete lists, and the limits of the API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.model import RunKey
from gpu_manager.ports import Refused, Unavailable

from tests.manager.github.fake_github import APP, INSTALLATION, ORG, FakeGithub, adapter, job, repository, run

Fault = Callable[[httpx2.Request], httpx2.Response | None]


def answering(status: int, message: str = "", **headers: str) -> Fault:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx2.Response(status, json={"message": message}, headers=shown)


def names(view_jobs: object) -> list[int]:
    assert isinstance(view_jobs, tuple)
    return sorted(each.key.job_id for each in view_jobs)


def test_unchanged_answers_cost_no_request_and_are_complete(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(1, "queued")]
    github.jobs[1] = [job(11, 1, "queued")]
    first = manager.observe(())
    used, asked = github.used, manager.requests.sent
    second = manager.observe(())
    assert (second.jobs, second.runners) == (first.jobs, first.runners)
    assert names(second.jobs) == [11]
    # The second sweep omits the states that are listed rarely, and reads everything else again.
    assert (github.used, manager.requests.sent) == (used, asked + 6)
    assert manager.requests.not_modified == len(github.conditions) == 6


def test_etags_belong_to_one_address_and_one_token(github: FakeGithub, manager: GithubAdapter) -> None:
    github.group_repositories[2] = [repository("kernels"), repository("models")]
    github.runs = {"kernels": [run(1, "queued")], "models": [run(2, "queued")]}
    github.jobs = {1: [job(11, 1, "queued")], 2: [job(22, 2, "queued")]}
    github.same_etags = True
    assert names(manager.observe(()).jobs) == names(manager.observe(()).jobs) == [11, 22]
    github.clock.pass_time(3600)
    github.conditions.clear()
    assert names(manager.observe(()).jobs) == [11, 22]
    assert github.conditions == []


def test_answers_about_runs_that_ended_are_forgotten(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(number, "queued") for number in range(1, 31)]
    manager.observe(())
    github.runs["kernels"] = []
    for _ in range(12):
        manager.observe(())
    assert [url for url in manager._client._cache if "/jobs" in url] == []


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (answering(502), "GitHub answered 502: "),
        (answering(404, "Not Found"), "GitHub answered 404: Not Found; it does not exist, or the App's installation"),
        (lambda _: httpx2.Response(200, content=b"<html>"), "GitHub answered 200 without a JSON object"),
        (lambda _: httpx2.Response(200, json={"jobs": []}), "page 2 of GitHub's answer is not a list of jobs"),
        (lambda _: httpx2.Response(200, json={"total_count": 256, "jobs": []}), "GitHub lists 100 of 256 jobs"),
    ],
)
def test_a_page_that_fails_makes_the_jobs_of_its_repository_unknown(
    github: FakeGithub, manager: GithubAdapter, fault: Fault, problem: str
) -> None:
    github.runs["kernels"] = [run(1, "in_progress"), run(2, "in_progress")]
    github.jobs = {1: [job(number, 1, "queued") for number in range(1000, 1256)], 2: [job(2000, 2, "queued")]}
    github.faults["/runs/1/jobs?filter=latest&per_page=100&page=2"] = fault
    view = manager.observe(())
    assert (view.jobs, view.runners, view.unread) == ((), (), frozenset({"example-org/kernels"}))
    [found] = view.problems
    repository = "example-org/kernels"
    assert found.startswith(f"{repository}: not read: GET /repos/{repository}/actions/runs/1/jobs: {problem}")


def test_a_list_that_shrinks_between_its_pages_is_read_again(github: FakeGithub, manager: GithubAdapter) -> None:
    github.runs["kernels"] = [run(number, "queued") for number in range(1, 151)]
    github.jobs = {number: [job(number, number, "queued")] for number in range(1, 151)}

    def one_has_ended(_: httpx2.Request) -> None:
        # Number 101 moves to the first page, which was already read.
        if len(github.runs["kernels"]) == 150:
            del github.runs["kernels"][0]

    github.faults["status=queued&per_page=100&page=2"] = one_has_ended
    assert names(manager.observe(()).jobs) == list(range(2, 151))


@pytest.mark.parametrize(
    ("fault", "wait_sec"),
    [
        (answering(403, "You have exceeded a secondary rate limit.", retry_after="17"), 17),
        (answering(429, "slow down", retry_after="17"), 17),
        (answering(403, "You have exceeded a secondary rate limit."), 60),
        (answering(429, "slow down"), 60),
        (
            answering(
                403,
                "API rate limit exceeded",
                x_ratelimit_remaining="0",
                x_ratelimit_limit="5000",
                x_ratelimit_reset="1795601000",
            ),
            1000,
        ),
    ],
)
def test_no_request_is_sent_during_a_rate_limit(
    github: FakeGithub, manager: GithubAdapter, fault: Fault, wait_sec: int
) -> None:
    github.faults["/runner-groups"] = fault
    view = manager.observe(())
    assert (view.jobs, view.runners, view.limited_sec) == (None, None, wait_sec)
    github.faults.clear()
    asked = len(github.asked)
    github.clock.pass_time(wait_sec - 1)
    view = manager.observe(())
    assert (view.jobs, view.limited_sec, len(github.asked)) == (None, 1, asked)
    with pytest.raises(Unavailable, match="GitHub's rate limit lasts 1 s more"):
        manager.rerun(RunKey("example-org/kernels", 1), 5)
    github.clock.pass_time(1)
    view = manager.observe(())
    assert (view.jobs, view.limited_sec) == ((), None)


def test_no_request_is_sent_after_the_last_one_of_the_hour(github: FakeGithub, manager: GithubAdapter) -> None:
    github.limit, github.used = 5000, 4999
    view = manager.observe(())
    assert (view.jobs, view.runners, view.limited_sec) == (None, None, 1800)
    assert len(github.asked) == 2


@pytest.mark.parametrize(
    ("used", "active", "interval_sec"), [(10, True, 10), (10, False, 30), (4100, True, 20), (4100, False, 60)]
)
def test_the_pause_between_sweeps_follows_the_need_and_the_budget(
    github: FakeGithub, manager: GithubAdapter, used: int, active: bool, interval_sec: float
) -> None:
    github.used = used
    manager.observe(())
    assert manager.interval_sec(active) == interval_sec


def test_one_of_three_managers_has_a_third_of_the_requests_of_a_minute(github: FakeGithub, tmp_path: Path) -> None:
    github.runs["kernels"] = [run(number, "queued") for number in range(300)]
    manager = adapter(github, tmp_path, managers=3)
    manager.observe(())
    manager.observe(())
    assert manager.interval_sec(True) == pytest.approx(307 * 60 / 240)
    manager.close()


@pytest.mark.parametrize("url", ["http://github.example", "ftp://github.example", "github.example"])
def test_the_apps_token_is_sent_only_over_https_or_to_this_computer(url: str, tmp_path: Path) -> None:
    app = App(APP, INSTALLATION, tmp_path / "app.pem")
    with pytest.raises(Refused, match="expected https"):
        GithubAdapter(url, app, ORG, ["gpu"])
    GithubAdapter("http://127.0.0.1:8080/github", app, ORG, ["gpu"]).close()
