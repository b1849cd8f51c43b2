"""The manager's port to GitHub, over its REST API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar
from urllib.parse import quote

import httpx2

from ..model import CommitStatus, NewRunner, Pool, Run, RunKey, Runner
from ..ports import GithubView, Refused, Unavailable
from . import payloads
from .app_token import App
from .rate_limits import Requests
from .rest_client import Clocks, RestClient, refusal
from .sweep import Sweep, repository_path, run_path

_PERMISSIONS = {"actions": "write", "organization_self_hosted_runners": "write"}

# The folder that the agent gives the runner for its jobs (gpu_agent/config.py).
_WORK_FOLDER = "_work"

_T = TypeVar("_T")


class GithubAdapter:
    """One organization, as one installation of the manager's App. Implements ports.Github.

    Args:
        url: https://api.github.com, or https://<host>/api/v3 of an Enterprise Server.
        app: The manager's App, its installation and the file of its key.
        organization: Its login.
        groups: Names of the pools' runner groups.
        repositories: Those to sweep in place of the groups' own: names, with the owner or without.
        own_groups: Those of this manager's share, whose repositories alone are swept; by default all.
        instances: How many managers ask as this installation.
        clocks, transport: For tests.
    """

    def __init__(
        self,
        url: str,
        app: App,
        organization: str,
        groups: Collection[str],
        repositories: Sequence[str] = (),
        *,
        own_groups: frozenset[str] | None = None,
        instances: int = 1,
        clocks: Clocks | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._client = RestClient(url, app, _PERMISSIONS, clocks, transport, instances)
        # GitHub makes no token with a permission that the App lacks. A token of their own keeps the statuses from
        # stopping everything else.
        self._status_client = RestClient(url, app, {"statuses": "write"}, clocks, transport, instances)
        names = [each if "/" in each else f"{organization}/{each}" for each in repositories]
        self._sweep = Sweep(self._client, organization, groups, names, own_groups)
        self._runners = f"/orgs/{quote(organization, safe='')}/actions/runners"

    def close(self) -> None:
        """End threads and connections."""
        self._sweep.close()
        self._client.close()
        self._status_client.close()

    @property
    def requests(self) -> Requests:
        """How many requests were made since the start."""
        return self._client.limits.requests

    def interval_sec(self, active: bool) -> float:
        """Seconds from one sweep to the next. `active`: a job waits for a machine, or a machine starts."""
        return self._client.limits.interval_sec(active)

    def hinted_interval_sec(self) -> float:
        """Seconds from one sweep to the next after a hint."""
        return self._client.limits.hinted_interval_sec()

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        """Sweep the repositories. A source that failed is None, and `problems` says why."""
        self._sweep.begin()
        problems: list[str] = []
        runners = _or_problem(self._sweep.runners, problems)
        jobs = _or_problem(self._sweep.jobs, problems)
        states: dict[RunKey, Run] = {}
        for key in sorted(runs):
            if (state := _or_problem(lambda key=key: self._sweep.run(key), problems)) is not None:  # type: ignore[misc]
                states[key] = state
        return GithubView(
            unix=self._client.github_unix(),
            jobs=jobs,
            runners=runners,
            runs=states,
            limited_sec=self._client.limits.wait_sec(),
            requests_left=self._client.limits.requests_left,
            problems=tuple(dict.fromkeys(problems)),
        )

    def repositories(self) -> dict[str, list[str]]:
        """The repositories that each runner group lets in. Unavailable or Refused."""
        self._sweep.begin()
        return self._sweep.repositories_of_groups()

    def authenticate_for_statuses(self) -> None:
        """Make the token for commit statuses. Refused where the App lacks the permission; or Unavailable."""
        self._status_client.authenticate()

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        """Unregister it: True where it is gone, False where it runs a job. Unavailable or Refused otherwise."""
        path = f"{self._runners}/{runner.id}"
        answer = self._client.send("DELETE", path)
        if answer.status in (204, 404):
            return True
        if answer.status == 422:  # "is still running a job"
            return False
        raise refusal("DELETE", path, answer)

    def register(self, pool: Pool, name: str) -> NewRunner:
        """Register a runner of this name for one job. One of that name that has no job is unregistered before.

        Unavailable, also where the runner of that name has a job; or Refused.
        """
        path = f"{self._runners}/generate-jitconfig"
        body = {
            "name": name,
            "runner_group_id": self._sweep.group_id(pool.runner_group),
            "labels": sorted(pool.labels),
            "work_folder": _WORK_FOLDER,
        }
        answer = self._client.send("POST", path, body)
        if answer.status == 409:
            # Of a request whose answer was lost, or of a manager that was killed: nobody has its configuration.
            self._remove_unused(name)
            answer = self._client.send("POST", path, body)
        if answer.status != 201:
            raise refusal("POST", path, answer)
        return payloads.read("a runner's registration", lambda: payloads.new_runner(answer.value))

    def _remove_unused(self, name: str) -> None:
        for each in self._client.elements(self._runners, "runners", name=name):
            found = payloads.read("runners", lambda each=each: payloads.runner(each))  # type: ignore[misc]
            if found.name.lower() == name.lower() and not self.remove_runner(found):
                raise Unavailable(f"the runner {name} has a job")

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        """Run one job or, with None, all failed jobs of the run again. Unavailable or Refused."""
        path = f"{run_path(run)}/rerun-failed-jobs"
        if job_id is not None:
            path = f"{repository_path(run.repository)}/actions/jobs/{job_id}/rerun"
        answer = self._client.send("POST", path)
        if answer.status == 403 and "already running" in answer.message.lower():
            raise Unavailable(f"POST {path}: {answer.message}")
        if answer.status != 201:
            raise refusal("POST", path, answer)

    def commit_status(self, status: CommitStatus) -> None:
        """Write a commit status. Unavailable or Refused."""
        path = f"{repository_path(status.repository)}/statuses/{quote(status.sha, safe='')}"
        if wait_sec := self._client.limits.wait_sec():
            raise Unavailable(f"POST {path}: not asked, as GitHub's limit is reached for {wait_sec:.0f} s more")
        body = {
            "state": status.state,
            "description": status.description,
            "target_url": status.url,
            "context": status.context,
        }
        answer = self._status_client.send("POST", path, body)
        if answer.status != 201:
            raise refusal("POST", path, answer)


def _or_problem(ask: Callable[[], _T], problems: list[str]) -> _T | None:
    try:
        return ask()
    except (Unavailable, Refused) as error:
        problems.append(str(error))
        return None
