"""The number of requests of one sweep. GitHub limits requests, and only their number grows with an organization."""

from __future__ import annotations

import pytest
from gpu_manager.github.adapter import GithubAdapter

from tests.manager.github.fake_github import FakeGithub, job, repository, run


@pytest.mark.parametrize(("repositories", "runs_each"), [(1, 0), (3, 2), (10, 3)])
def test_a_sweep_sends_two_requests_for_each_repository_and_one_for_each_active_run(
    github: FakeGithub, manager: GithubAdapter, repositories: int, runs_each: int
) -> None:
    names = [f"repository-{number}" for number in range(repositories)]
    github.group_repositories[2] = [repository(name) for name in names]
    for number, name in enumerate(names):
        github.runs[name] = [run(100 * number + each, "queued") for each in range(runs_each)]
        for each in github.runs[name]:
            github.jobs[each["id"]] = [
                job(10_000 + 4 * each["id"] + position, each["id"], "queued") for position in range(4)
            ]
    asked, unchanged = [], []
    for _ in range(6):
        before = manager.requests
        view = manager.observe(())
        assert view.problems == ()
        assert len(view.jobs or ()) == 4 * repositories * runs_each
        asked.append(manager.requests.sent - before.sent)
        unchanged.append(manager.requests.not_modified - before.not_modified)
    # The groups, their repositories, their runners. Every fifth sweep reads three more states of runs.
    active = repositories * runs_each
    usual, seldom = 3 + 2 * repositories + active, 3 + 5 * repositories + active
    # The first sweep creates a token as well.
    assert asked == [seldom + 1, usual, usual, usual, usual, seldom]
    assert unchanged == [0, usual, usual, usual, usual, seldom]


def test_a_thousand_jobs_of_fifty_repositories_are_inside_the_limits_of_an_hour(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    names = [f"repository-{number}" for number in range(50)]
    github.group_repositories[2] = [repository(name) for name in names]
    for number, name in enumerate(names):
        github.runs[name] = [run(100 * number + each, "queued") for each in range(5)]
    manager.observe(())
    manager.observe(())
    # 353 requests; at 720 a minute a sweep may begin every 29 seconds.
    assert manager.interval_sec(active=True) == pytest.approx(353 / 12)
    # The secondary limit is 900 points a minute.
    assert 353 * 60 / manager.interval_sec(active=True) <= 900
