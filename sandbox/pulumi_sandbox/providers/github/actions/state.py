"""State changes of workflow runs, jobs and runners. All state is in the world, so any process may change it."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.repositories import Repositories, Repository
from pulumi_sandbox.providers.github.rest import Refused
from pulumi_sandbox.providers.github.types import numbers, same_name
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import Record, World

RUN = "github:rest/workflowRun:WorkflowRun"
JOB = "github:rest/job:Job"
RUNNER = "github:rest/runner:Runner"
COMMENT = "github:rest/issueComment:IssueComment"

QUEUED, IN_PROGRESS, COMPLETED = "queued", "in_progress", "completed"
SUCCESS, FAILURE, CANCELLED = "success", "failure", "cancelled"
EVENT, BRANCH = "push", "main"
WRITER = "octocat"
"""The only person with write access to the repositories."""
DEFAULT_GROUP_ID = 1


def run_status(jobs: Sequence[dict[str, Any]]) -> str:
    """Return the status of a run with these latest jobs."""
    statuses = {job["status"] for job in jobs}
    if statuses == {COMPLETED}:
        return COMPLETED
    # GitHub does not document the status of a run whose jobs have different statuses. Here it is in progress as soon as
    # one job has started.
    if IN_PROGRESS in statuses or {QUEUED, COMPLETED} <= statuses:
        return IN_PROGRESS
    return QUEUED


def run_conclusion(jobs: Sequence[dict[str, Any]], *, cancelled: bool) -> str:
    """Return the conclusion of a completed run. GitHub does not document how the conclusions of jobs are combined."""
    conclusions = {job["conclusion"] for job in jobs}
    if cancelled and conclusions != {SUCCESS}:
        return CANCELLED
    return next((one for one in (FAILURE, CANCELLED) if one in conclusions), SUCCESS)


Outputs = dict[str, Any]

# The time without a request after which a runner is offline, and after which its job is lost. On GitHub both take
# minutes.
OFFLINE_SEC, LOST_SEC = 10, 30
LOST_RUNNER_LOG = "The self-hosted runner lost communication with the server."
LOG_CHARACTERS = 64 * 1024
# The minimum interval between two writes of a runner's last contact. A runner sends a request every second.
CONTACT_WRITE_SEC = 2
FIRST_RUN, FIRST_JOB = 10_001, 50_001
# Sources: github.com/cli/cli/issues/9221 and RunsOn#259: status 403 until the whole run is completed.
ACTIVE_RUN = "This workflow is already running"
# GitHub does not document its answer to a rerun of failed jobs if no job has failed.
NO_FAILED_JOB = "This workflow run has no failed jobs"


class RunCompleted(Exception):  # noqa: N818 - an answer
    """The run is already completed."""


@dataclass(frozen=True)
class Actions:
    """GitHub Actions of one world."""

    world: World
    repositories: Repositories
    now: Callable[[], float] = time.time

    # -- reads --------------------------------------------------------------------------------------------------------

    def run(self, number: int) -> Outputs | None:
        row = self.world.get(RUN, str(number))
        return row.outputs if row else None

    def job(self, number: int) -> Outputs | None:
        row = self.world.get(JOB, str(number))
        return row.outputs if row else None

    def runs(self, repository: Repository) -> list[Outputs]:
        """Return the runs of a repository, newest first."""
        return [one.outputs for one in reversed(self.world.find(RUN, repository=repository.full_name))]

    def jobs(self, run: int, *, latest: bool = True) -> list[Outputs]:
        """Return the jobs of a run in their order. With `latest`, return only the newest attempt of each job."""
        rows = [one.outputs for one in self.world.find(JOB, runId=run)]
        if not latest:
            return rows
        newest_attempts = {one["position"]: one for one in rows}
        return [newest_attempts[position] for position in sorted(newest_attempts)]

    def runners(self, owner: str) -> list[Record]:
        """Return the runners of an owner: `orgs/NAME` or `repos/OWNER/NAME`."""
        return self.world.find(RUNNER, owner=owner.lower())

    # -- the queue ----------------------------------------------------------------------------------------------------

    def queue(
        self,
        repository: Repository,
        jobs: Sequence[Mapping[str, Any]],
        *,
        workflow: str = "CI",
        event: str = EVENT,
        fork: str = "",
    ) -> tuple[Outputs, list[Outputs]]:
        """Start a run with these jobs for an event. The file of the workflow has the workflow's name in lower case.

        With `fork`, the login of its owner, it is for a new pull request, which has the number of the run.
        A job has `name`, `labels`, `steps` with `name` and `run`, and maybe the `group` that runs-on names, which the
        REST API does not show.
        """
        number, now = self.world.next_number("github-run", FIRST_RUN), self.now()
        key = f"{repository.full_name}/{workflow}".lower()
        run: Outputs = {
            "id": number,
            "repository": repository.full_name,
            "workflow": workflow,
            "event": "pull_request" if fork else event,
            "number": self.world.next_number(f"github-run-number/{key}"),
            "attempt": 1,
            "path": f".github/workflows/{workflow.lower()}.yml",
            "sha": hashlib.sha1(f"{key}/{number}".encode(), usedforsecurity=False).hexdigest(),
            "fork": fork,
            "createdAt": now,
            "cancelled": False,
            "status": QUEUED,
            "conclusion": None,
        }
        with self.world.transaction():
            self.world.insert(Record(RUN, str(number), workflow, "", {}, run, "api"))
            for position, definition in enumerate(jobs):
                self._add_job(run, position, definition)
            self._update_run(number)
        return self.run(number) or run, self.jobs(number)

    def comment(self, pull: int, login: str, body: str) -> None:
        """Add a comment to a pull request."""
        number, at = self.world.next_number("github-comment"), self.now()
        outputs = {"id": number, "pull": pull, "login": login, "body": body, "at": at}
        self.world.insert(Record(COMMENT, str(number), login, "", {}, outputs, "api"))

    def _add_job(self, run: Outputs, position: int, definition: Mapping[str, Any]) -> None:
        number = self.world.next_number("github-job", FIRST_JOB)
        job: Outputs = {
            "id": number,
            "runId": run["id"],
            "repository": run["repository"],
            "attempt": run["attempt"],
            "position": position,
            "name": definition["name"],
            "labels": [one.replace("${{ github.run_id }}", str(run["id"])) for one in definition["labels"]],
            "status": QUEUED,
            "conclusion": None,
            "createdAt": self.now(),
            "startedAt": None,
            "completedAt": None,
            "runner": None,
            "cancelling": False,
            "steps": [],
            "log": "",
        }
        self.world.insert(Record(JOB, str(number), definition["name"], "", dict(definition), job, "api"))

    # -- runs ---------------------------------------------------------------------------------------------------------

    def cancel(self, run: int) -> None:
        """Cancel a run: end its queued jobs, and request the runners of its other jobs to stop. Raises RunCompleted."""
        with self.world.transaction():
            run_row = self.run(run)
            if run_row is None or run_row["status"] == COMPLETED:
                raise RunCompleted
            self.world.update(RUN, str(run), outputs={**run_row, "cancelled": True}, note="cancelled")
            for job in self.jobs(run):
                if job["status"] == QUEUED:
                    self._complete(job, CANCELLED)
                elif job["status"] == IN_PROGRESS:
                    self._change(job, cancelling=True)

    def rerun(self, run: int, job: int | None = None) -> None:
        """Start the next attempt with one job, or with all failed jobs. Raises Refused."""
        with self.world.transaction():
            current = self.run(run)
            if current is None or current["status"] != COMPLETED:
                raise Refused(403, ACTIVE_RUN)
            jobs_to_rerun = [
                one for one in self.jobs(run) if (one["conclusion"] != SUCCESS if job is None else one["id"] == job)
            ]
            if not jobs_to_rerun:
                raise Refused(403, NO_FAILED_JOB)
            next_run = {**current, "attempt": current["attempt"] + 1, "cancelled": False}
            self.world.update(RUN, str(run), outputs=next_run, note=f"attempt {next_run['attempt']}")
            for one in jobs_to_rerun:
                self._add_job(next_run, one["position"], self._definition(one["id"]))
            self._update_run(run)

    def _definition(self, job: int) -> Outputs:
        row = self.world.get(JOB, str(job))
        return row.inputs if row else {}

    # -- runners ------------------------------------------------------------------------------------------------------

    def register(self, owner: str, name: str, group: int, labels: Sequence[str], folder: str) -> tuple[Outputs, str]:
        """Register a runner, and return it with its credential. The caller has checked that the name is free."""
        number, credential = self.world.next_number("github-runner"), secrets.token_urlsafe(32)
        runner: Outputs = {
            "id": number,
            "owner": owner.lower(),
            "name": name,
            "groupId": group,
            "labels": list(labels),
            "workFolder": folder,
            "online": False,
            "busy": False,
            "job": None,
            "spent": False,
            "credential": digest(credential),
            "createdAt": self.now(),
            "seenAt": None,
        }
        self.world.insert(Record(RUNNER, f"{owner.lower()}/{number}", name, "", {}, runner, "api"))
        return runner, credential

    def runner_of(self, credential: str) -> Outputs | None:
        """Return the runner with this credential and mark it as online. Return None if it is not registered."""
        with self.world.transaction():
            rows = self.world.find(RUNNER, credential=digest(credential))
            return self._mark_online(rows[0].outputs) if rows else None

    def remove_runner(self, owner: str, number: int) -> bool:
        return self.world.delete(RUNNER, f"{owner.lower()}/{number}")

    def _mark_online(self, runner: Outputs) -> Outputs:
        if runner["online"] and self.now() - runner["seenAt"] < CONTACT_WRITE_SEC:
            return runner
        new = {**runner, "online": True, "seenAt": self.now()}
        self._update_runner(new, quiet=bool(runner["online"]), note=f"{runner['name']} is online")
        return new

    def assign(self, runner: int, owner: str) -> Record | None:
        """Return the job of a runner: its current job, or else the oldest queued job that it may run."""
        with self.world.transaction():
            runner_row = self.world.get(RUNNER, f"{owner}/{runner}")
            if runner_row is None or runner_row.outputs["spent"]:
                return None
            if runner_row.outputs["job"] is not None:
                return self.world.get(JOB, str(runner_row.outputs["job"]))
            for row in self.world.find(JOB, status=QUEUED):
                if self._may_run(runner_row.outputs, row.outputs, row.inputs.get("group", "")):
                    self._start(runner_row.outputs, row.outputs)
                    return self.world.get(JOB, row.id)
        return None

    def _start(self, runner: Outputs, job: Outputs) -> None:
        group = self.group_name(runner["owner"], runner["groupId"])
        runner_of_job = {"id": runner["id"], "name": runner["name"], "group": group}
        self._update_runner({**runner, "busy": True, "job": job["id"]}, note=f"{runner['name']} has job {job['id']}")
        self._change(job, status=IN_PROGRESS, startedAt=self.now(), runner=runner_of_job)

    def finish(self, job: int, conclusion: str, steps: Sequence[Outputs], log: str) -> bool:
        """Complete a job in progress, and remove its ephemeral runner. Return True if the job was in progress."""
        with self.world.transaction():
            job_row = self.job(job)
            if job_row is None or job_row["status"] != IN_PROGRESS:
                return False
            self._complete(job_row, conclusion, steps, log[-LOG_CHARACTERS:])
            for row in self.world.find(RUNNER, job=job):
                self.world.delete(RUNNER, row.id, f"{row.name} has done its job")
        return True

    def _may_run(self, runner: Outputs, job: Outputs, wanted_group: str) -> bool:
        """Return True if the runner has all labels of the job, case-insensitive, and may serve it.

        Sources: docs.github.com/en/actions/reference/runners/self-hosted-runners, routing; docs.github.com, "Managing
        access to self-hosted runners using groups": only jobs of the selected workflows, and of the file at its ref.
        """
        kind, _, owner = runner["owner"].partition("/")
        labels = {one.lower() for one in job["labels"]}
        if not labels <= {one.lower() for one in runner["labels"]} or not self._may_use(runner, job["repository"]):
            return False
        if kind == "repos":
            return not wanted_group
        group = self.group(owner, runner["groupId"])
        if wanted_group and not same_name(wanted_group, self.group_name(runner["owner"], runner["groupId"])):
            return False
        if group is None or group.outputs.get("restrictedToWorkflows") is not True:
            return True
        run = self.run(job["runId"]) or {}
        workflow = f"{job['repository']}/{run['path']}@"
        allowed = [f"{workflow}{each}" for each in (f"refs/heads/{BRANCH}", BRANCH, run["sha"])]
        return any(same_name(one, each) for one in allowed for each in group.outputs.get("selectedWorkflows") or ())

    def _may_use(self, runner: Outputs, full_name: str) -> bool:
        kind, _, owner = runner["owner"].partition("/")
        if kind == "repos":
            return same_name(owner, full_name)
        return any(same_name(one.full_name, full_name) for one in self.repositories_of_group(owner, runner["groupId"]))

    # -- runner groups ------------------------------------------------------------------------------------------------

    def groups(self, owner: str) -> Iterator[Record]:
        """Return the runner groups that stacks created."""
        for one in self.world.find(types.RUNNER_GROUP):
            if f"/orgs/{owner}/".lower() in text_of(one.outputs, "runnersUrl").lower():
                yield one

    def group(self, owner: str, number: int) -> Record | None:
        return next((one for one in self.groups(owner) if int(one.id) == number), None)

    def group_name(self, owner: str, number: int) -> str:
        group = self.group(owner.rpartition("/")[2], number)
        return text_of(group.outputs, "name") if group else "Default"

    def repositories_of_group(self, owner: str, number: int) -> list[Repository]:
        """Return the repositories that may use a runner group."""
        group = self.group(owner, number)
        if group is None and number != DEFAULT_GROUP_ID:
            return []
        outputs = group.outputs if group else {"visibility": "all"}
        repositories = self.repositories.of(owner)
        if outputs.get("visibility") == "selected":
            selected = numbers(outputs, "selectedRepositoryIds")
            repositories = [one for one in map(self.repositories.by_number, selected) if one]
        public = outputs.get("allowsPublicRepositories") is True
        return [one for one in repositories if one.private or (public and outputs.get("visibility") != "private")]

    # -- changes caused by time ---------------------------------------------------------------------------------------

    def apply_time(self) -> None:
        """Mark runners without contact as offline or lost."""
        with self.world.transaction():
            for row in self.world.find(RUNNER):
                self._apply_time_to_runner(row.outputs)

    def _apply_time_to_runner(self, runner: Outputs) -> None:
        silent_sec = self.now() - (runner["seenAt"] or runner["createdAt"])
        if runner["busy"] and silent_sec > LOST_SEC:
            job = self.job(runner["job"])
            if job and job["status"] == IN_PROGRESS:
                self._complete(job, CANCELLED if job["cancelling"] else FAILURE, [], LOST_RUNNER_LOG)
            lost = {**runner, "online": False, "busy": False, "job": None, "spent": True}
            self._update_runner(lost, note=f"{runner['name']} is lost")
        elif runner["online"] and silent_sec > OFFLINE_SEC:
            self._update_runner({**runner, "online": False}, note=f"{runner['name']} is offline")

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _complete(self, job: Outputs, conclusion: str, steps: Sequence[Outputs] = (), log: str = "") -> None:
        self._change(job, status=COMPLETED, conclusion=conclusion, completedAt=self.now(), steps=list(steps), log=log)

    def _change(self, job: Outputs, **values: Any) -> None:
        new = {**job, **values}
        note = f"{new['name']}: {new['conclusion'] or new['status']}"
        self.world.update(JOB, str(job["id"]), outputs=new, note=note)
        self._update_run(int(job["runId"]))

    def _update_run(self, run: int) -> None:
        """Update the status and conclusion of a run from its jobs."""
        run_row, jobs = self.run(run), self.jobs(run)
        if run_row is None:
            return
        status = run_status(jobs)
        conclusion = run_conclusion(jobs, cancelled=run_row["cancelled"]) if status == COMPLETED else None
        new = {**run_row, "status": status, "conclusion": conclusion}
        self.world.update(RUN, str(run), outputs=new, quiet=run_row["status"] == status, note=conclusion or status)

    def _update_runner(self, runner: Outputs, *, quiet: bool = False, note: str = "") -> None:
        self.world.update(RUNNER, f"{runner['owner']}/{runner['id']}", outputs=runner, quiet=quiet, note=note)


def digest(credential: str) -> str:
    """Return the hash of a credential, which the world stores instead of the credential."""
    return hashlib.sha256(credential.encode()).hexdigest()
