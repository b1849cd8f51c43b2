"""The calls of GitHub's REST API for workflow runs, jobs, and statuses and check runs of commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.state import COMMENT, WRITER, Actions, RunCompleted
from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.github.rest import Refused, Request, Route, paged
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.world.store import Record, World

REPOSITORY = r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)"
# Source of the message: github.com/Homebrew/actions/issues/70.
COMPLETED_RUN = "Cannot cancel a workflow run that is completed."


@dataclass(frozen=True)
class RunsApi:
    """The calls for one world. Every handler gets the repository of the request."""

    actions: Actions

    def routes(self) -> list[Route]:
        runs, jobs = rf"{REPOSITORY}/actions/runs", rf"{REPOSITORY}/actions/jobs/(?P<job>\d+)"
        run_path = rf"{runs}/(?P<run>\d+)"
        return [
            Route("GET", runs, "actions", "read", self._runs),
            Route("GET", run_path, "actions", "read", self._run),
            Route("GET", rf"{run_path}/jobs", "actions", "read", self._jobs),
            Route("POST", rf"{jobs}/rerun", "actions", "write", self._rerun_job),
            Route("POST", rf"{run_path}/rerun-failed-jobs", "actions", "write", self._rerun_failed_jobs),
            Route("POST", rf"{run_path}/cancel", "actions", "write", self._cancel),
            Route("GET", rf"{REPOSITORY}/pulls", "pull_requests", "read", self._pulls),
            Route("GET", rf"{REPOSITORY}/issues/(?P<pull>\d+)/comments", "pull_requests", "read", self._comments),
            Route("GET", rf"{REPOSITORY}/collaborators/(?P<login>[^/]+)/permission", "", "", self._permission),
        ]

    def _pulls(self, request: Request, repository: Repository) -> Answer:
        """Answer with the pull requests of the owner that `head` names. All forks have the same branch."""
        rows = [one for one in self.actions.runs(repository) if one.get("fork")]
        owner = request.option("head").partition(":")[0]
        return as_json(200, [documents.pull(one) for one in rows if one["fork"] == owner])

    def _comments(self, request: Request, repository: Repository, pull: str) -> Answer:
        self._run_or_refuse(repository, pull)
        rows = self.actions.world.find(COMMENT, pull=int(pull))
        return as_json(200, [documents.comment(one.outputs) for one in rows])

    def _permission(self, request: Request, repository: Repository, login: str) -> Answer:
        level = "write" if login == WRITER else "read"
        return as_json(200, {"permission": level, "user": documents.user(login)})

    def _runs(self, request: Request, repository: Repository) -> Answer:
        rows, status = self.actions.runs(repository), request.option("status")
        if status:
            rows = [one for one in rows if status in (one["status"], one["conclusion"])]
        if created := request.option("created"):
            # Of the forms of docs.github.com/en/search-github/getting-started-with-searching-on-github/understanding-
            # the-search-syntax, only `<=` with a time is emulated.
            rows = [one for one in rows if (documents.instant(one["createdAt"]) or "") <= created.removeprefix("<=")]
        return paged(request, "workflow_runs", rows, documents.run)

    def _run(self, request: Request, repository: Repository, run: str) -> Answer:
        return as_json(200, documents.run(self._run_or_refuse(repository, run)))

    def _jobs(self, request: Request, repository: Repository, run: str) -> Answer:
        row = self._run_or_refuse(repository, run)
        rows = self.actions.jobs(int(run), latest=request.option("filter") != "all")
        return paged(request, "jobs", rows, lambda one: documents.job(one, row))

    def _rerun_job(self, request: Request, repository: Repository, job: str) -> Answer:
        row = _of_repository(repository, self.actions.job(int(job)))
        self.actions.rerun(row["runId"], row["id"])
        return as_json(201, {})

    def _rerun_failed_jobs(self, request: Request, repository: Repository, run: str) -> Answer:
        self.actions.rerun(self._run_or_refuse(repository, run)["id"])
        return as_json(201, {})

    def _cancel(self, request: Request, repository: Repository, run: str) -> Answer:
        try:
            self.actions.cancel(self._run_or_refuse(repository, run)["id"])
        except RunCompleted:
            raise Refused(409, COMPLETED_RUN) from None
        return as_json(202, {})

    def _run_or_refuse(self, repository: Repository, run: str) -> dict[str, Any]:
        return _of_repository(repository, self.actions.run(int(run)))


def _of_repository(repository: Repository, row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None or row["repository"] != repository.full_name:
        raise Refused(404, "Not Found")
    return row


STATUS, CHECK_RUN = "github:rest/commitStatus", "github:rest/checkRun"
STATES = ("error", "failure", "pending", "success")
# The documentation of the call does not have this limit. GitHub answers 422 to a longer text.
DESCRIPTION_CHARACTERS = 140


@dataclass(frozen=True)
class StatusesApi:
    """The statuses and check runs of one world.

    Sources of the fields: docs.github.com/en/rest/commits/statuses and docs.github.com/en/rest/checks/runs.
    """

    world: World

    def routes(self) -> list[Route]:
        return [
            Route("POST", rf"{REPOSITORY}/statuses/(?P<sha>[0-9a-f]{{40}})", "statuses", "write", self._create_status),
            Route("POST", rf"{REPOSITORY}/check-runs", "checks", "write", self._create_check_run),
            Route("GET", rf"{REPOSITORY}/commits/(?P<sha>[0-9a-f]{{40}})/statuses", "statuses", "read", self._statuses),
        ]

    def of(self, repository: Repository, sha: str) -> Sequence[Mapping[str, Any]]:
        """Return the statuses of a commit, the newest one first."""
        return [each.outputs for each in self.world.find(STATUS, commit=f"{repository.full_name}@{sha}")][::-1]

    def _create_status(self, request: Request, repository: Repository, sha: str) -> Answer:
        given = request.body
        if given.get("state") not in STATES:
            raise Refused(422, f"Validation Failed: state is not one of {', '.join(STATES)}")
        if len(str(given.get("description") or "")) > DESCRIPTION_CHARACTERS:
            text = f"description is too long (maximum is {DESCRIPTION_CHARACTERS} characters)"
            raise Refused(422, f"Validation Failed: {text}")
        number = self.world.next_number("github-status")
        document = {
            "id": number,
            "state": given["state"],
            "description": given.get("description"),
            "target_url": given.get("target_url"),
            "context": given.get("context") or "default",
        }
        outputs = {**document, "commit": f"{repository.full_name}@{sha}"}
        self.world.insert(Record(STATUS, str(number), str(document["context"]), "", {}, outputs, "api"))
        return as_json(201, document)

    def _create_check_run(self, request: Request, repository: Repository) -> Answer:
        given = {key: request.body.get(key) for key in ("name", "head_sha", "conclusion", "details_url", "output")}
        if not given["name"] or not given["head_sha"]:
            raise Refused(422, "Invalid request.\n\nname and head_sha are required.")
        document = {"id": self.world.next_number("github-check-run"), **given}
        self.world.insert(Record(CHECK_RUN, str(document["id"]), str(given["name"]), "", {}, document, "api"))
        return as_json(201, document)

    def _statuses(self, request: Request, repository: Repository, sha: str) -> Answer:
        return as_json(200, [{key: each[key] for key in each if key != "commit"} for each in self.of(repository, sha)])
