"""The manager's adapter to the REST API of GitHub."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar
from urllib.parse import quote

import httpx2

from ..model import JobKey, NewRunner, Pool, RanJob, Report, Run, RunKey, Runner
from ..ports import GithubView, Refused, Unavailable
from . import payloads
from .app_token import App
from .rate_limits import Requests
from .rest_client import Answer, Clocks, RestClient, refusal
from .scale_sets import ScaleSets
from .sweep import Sweep, repository_path, run_path

_PERMISSIONS = {"actions": "write", "organization_self_hosted_runners": "write"}

# The name of the check runs that say why a job failed.
_CHECK_RUN = "gpu-ci/machine"

# The folder in which the agent's runner runs jobs (gpu_agent/config.py).
_WORK_FOLDER = "_work"

_T = TypeVar("_T")


class GithubAdapter:
    """One organization, accessed as one installation of the manager's App. Implements ports.Github.

    Args:
        url: https://api.github.com, or https://<host>/api/v3 of an Enterprise Server.
        app: The manager's App, its installation and its key file.
        organization: The organization's login.
        groups: Names of the pools' runner groups.
        managers: The number of managers that send requests as this installation.
        public: True if a pool is for public repositories. Approvals are read then, which needs a further permission.
        scale_sets: The scale sets whose messages name the runs to read; None to list all repositories each time.
        clocks, transport: Replaced in tests.
    """

    def __init__(
        self,
        url: str,
        app: App,
        organization: str,
        groups: Collection[str],
        *,
        managers: int = 1,
        public: bool = False,
        scale_sets: ScaleSets | None = None,
        clocks: Clocks | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        permissions = _PERMISSIONS | ({"pull_requests": "read"} if public else {})
        self._client = RestClient(url, app, permissions, clocks, transport, managers)
        # GitHub creates no token with a permission that the App lacks, and this one is optional.
        self._checks = RestClient(url, app, {"checks": "write"}, clocks, transport, managers)
        self._scale_sets, self._hints = scale_sets, scale_sets.hints() if scale_sets else None
        self._sweep = Sweep(self._client, organization, groups, self._hints)
        self._organization = organization
        self._runners = f"/orgs/{quote(organization, safe='')}/actions/runners"

    def close(self) -> None:
        """End threads and connections."""
        self._sweep.close()
        self._client.close()
        self._checks.close()

    @property
    def requests(self) -> Requests:
        """The number of requests since the start."""
        return self._client.limits.requests

    def interval_sec(self, active: bool) -> float:
        """Return the seconds between two sweeps. `active`: a job waits for a machine, or a machine starts."""
        return self._client.limits.interval_sec(active)

    @property
    def is_called(self) -> bool:
        """True if a message has named a new job, and GitHub's limits allow a sweep now."""
        return self._hints is not None and self._hints.new and self._client.limits.may_sweep()

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        self._sweep.begin()
        problems = self._scale_sets.problems if self._scale_sets else []
        runners = _or_problem(self._sweep.runners, problems)
        found = _or_problem(self._sweep.jobs, problems)
        states: dict[RunKey, Run] = {}
        for key in sorted(runs):
            if (state := _or_problem(lambda key=key: self._sweep.run(key), problems)) is not None:  # type: ignore[misc]
                states[key] = state
        return GithubView(
            unix=self._client.github_unix(),
            jobs=found.jobs if found else None,
            unread=found.unread if found else frozenset(),
            runners=runners,
            runs=states,
            limited_sec=self._client.limits.wait_sec(),
            requests_left=self._client.limits.requests_left,
            problems=tuple(dict.fromkeys([*problems, *(found.problems if found else ())])),
        )

    def runners(self) -> tuple[Runner, ...]:
        """Return the runners of all groups of the organization. Raises Unavailable or Refused."""
        return tuple(self._client.elements(self._runners, "runners", payloads.runner))

    def unix(self) -> float:
        """Return seconds since 1970 by GitHub's clock, or by the computer's before GitHub's first answer."""
        return self._client.unix()

    def repositories(self) -> dict[str, list[str]]:
        """Return the repositories that each runner group allows. Raises Unavailable or Refused."""
        self._sweep.begin()
        return self._sweep.repositories_of_groups()

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        path = f"{self._runners}/{runner.id}"
        answer = self._client.send("DELETE", path)
        if answer.status in (204, 404):
            return True
        if answer.status == 422:  # "is still running a job"
            return False
        raise refusal("DELETE", path, answer)

    def register(self, pool: Pool, name: str) -> NewRunner:
        path = f"{self._runners}/generate-jitconfig"
        group = self._sweep.group(pool.runner_group)
        if group.allows_public_repositories and not pool.public:
            raise Refused(
                f"the runner group {group.name} allows public repositories, so any fork could use this runner; "
                "forbid them, or set publicRepositories of the group (docs/guides/github.md)"
            )
        body = {
            "name": name,
            "runner_group_id": group.id,
            "labels": sorted(pool.labels),
            "work_folder": _WORK_FOLDER,
        }

        def create() -> Answer:
            if self._scale_sets:
                return self._scale_sets.new_runner(pool, name, _WORK_FOLDER)
            return self._client.send("POST", path, body)

        answer = create()
        if answer.status == 409:
            # The runner comes from a request whose answer was lost, or from a killed manager. It cannot start, because
            # its configuration is lost too.
            self._remove_unused(name)
            answer = create()
        if answer.status not in (200, 201):
            raise refusal("POST", path, answer)
        return payloads.read("a runner's registration", lambda: payloads.new_runner(answer.value))

    def _remove_unused(self, name: str) -> None:
        for found in self._client.elements(self._runners, "runners", payloads.runner, name=name):
            if found.name.lower() == name.lower() and not self.remove_runner(found):
                raise Unavailable(f"the runner {name} has a job")

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        path = f"{run_path(run)}/rerun-failed-jobs"
        if job_id is not None:
            path = f"{repository_path(run.repository)}/actions/jobs/{job_id}/rerun"
        answer = self._client.send("POST", path)
        if answer.status == 403 and "already running" in answer.message.lower():
            raise Unavailable(f"POST {path}: {answer.message}")
        if answer.status != 201:
            raise refusal("POST", path, answer)

    def cancel(self, job: JobKey) -> bool:
        # GitHub may have assigned the job since the sweep.
        found = self._client.send("GET", f"{repository_path(job.repository)}/actions/jobs/{job.job_id}")
        if found.status == 200 and payloads.read("a job", lambda: found.value["status"]) != "queued":
            return False
        path = f"{run_path(RunKey(job.repository, job.run_id))}/cancel"
        answer = self._client.send("POST", path)
        if answer.status not in (202, 409):  # 409: the run is completed
            raise refusal("POST", path, answer)
        return True

    def check_run(self, report: Report) -> None:
        job, path = report.job, f"{repository_path(report.job.repository)}/check-runs"
        if (run := self._client.find(run_path(RunKey(job.repository, job.run_id)))) is None:
            raise Refused(f"POST {path}: run {job.run_id} is gone")
        body = {
            "name": _CHECK_RUN,
            "head_sha": payloads.read("a run", lambda: run["head_sha"]),
            "details_url": f"{payloads.read('a run', lambda: run['html_url'])}/job/{job.job_id}",
            # Neutral: it neither blocks a merge nor allows one.
            "conclusion": "neutral",
            "output": {"title": report.title, "summary": report.summary},
        }
        answer = self._checks.send("POST", path, body)
        if answer.status != 201:
            raise refusal("POST", path, answer)

    def ran(self, run: RunKey) -> tuple[RanJob, ...]:
        owner, _, name = run.repository.partition("/")
        if owner.lower() != self._organization.lower() or name in (".", ".."):  # a job may have named it
            return ()
        path = f"{run_path(run)}/jobs"
        try:
            found = self._client.elements(
                path, "jobs", lambda each: payloads.ran_job(each, run.repository), filter="all"
            )
        except Refused:  # the run or the repository is gone
            return ()
        return tuple(each for each in found if each)


def _or_problem(ask: Callable[[], _T], problems: list[str]) -> _T | None:
    try:
        return ask()
    except (Unavailable, Refused) as error:
        problems.append(str(error))
        return None
