"""Runner groups and just-in-time runners: the calls of GitHub's REST API, and the requests of a runner for its job."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from gpu_catalog import staleness

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.documents import WEB
from pulumi_sandbox.providers.github.actions.state import BRANCH, DEFAULT_GROUP_ID, EVENT, IN_PROGRESS, WRITER, Actions
from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.github.rest import Refused, Request, Route, paged
from pulumi_sandbox.providers.github.types import same_name
from pulumi_sandbox.providers.github.world import API
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import Record

SELF_HOSTED = "organization_self_hosted_runners"
# Source of the message: actions/actions-runner-controller@2ee6b3b,
# controllers/actions.summerwind.net/runner_graceful_stop.go.
BUSY = 'Bad request - Runner "{}" is still running a job'
WORK_FOLDER = "_work"


@dataclass(frozen=True)
class RunnersApi:
    """The calls for one world.

    Paths of a repository require the permission `administration`, paths of an organization SELF_HOSTED.
    """

    actions: Actions

    def routes(self) -> list[Route]:
        groups = r"/orgs/(?P<owner>[^/]+)/actions/runner-groups"
        group = rf"{groups}/(?P<group>\d+)"
        runner_routes = []
        for permission, owner in (
            (SELF_HOSTED, r"/(?P<owner>orgs/[^/]+)"),
            ("administration", r"/(?P<owner>repos/[^/]+/[^/]+)"),
        ):
            runners = rf"{owner}/actions/runners"
            runner_routes += [
                Route("POST", rf"{runners}/generate-jitconfig", permission, "write", self._jitconfig),
                Route("GET", runners, permission, "read", self._runners),
                Route("DELETE", rf"{runners}/(?P<number>\d+)", permission, "write", self._remove),
            ]
        return [
            Route("GET", groups, SELF_HOSTED, "read", self._groups),
            Route("GET", rf"{group}/repositories", SELF_HOSTED, "read", self._group_repositories),
            Route("GET", rf"{group}/runners", SELF_HOSTED, "read", self._group_runners),
            *runner_routes,
        ]

    # -- groups -------------------------------------------------------------------------------------------------------

    def _groups(self, request: Request, owner: str) -> Answer:
        rows = [None, *self.actions.groups(owner)]  # None is the default group, which has no row
        return paged(request, "runner_groups", rows, documents.group)

    def _group_repositories(self, request: Request, owner: str, group: str) -> Answer:
        self._group_or_refuse(owner, group)
        rows = self.actions.repositories_of_group(owner, int(group))
        return paged(request, "repositories", rows, documents.repository)

    def _group_runners(self, request: Request, owner: str, group: str) -> Answer:
        self._group_or_refuse(owner, group)
        runners = [one.outputs for one in self.actions.runners(f"orgs/{owner}")]
        rows = [one for one in runners if one["groupId"] == int(group)]
        return paged(request, "runners", rows, documents.runner)

    def _group_or_refuse(self, owner: str, group: str) -> Record | None:
        """Return the runner group, or None for the default group. Raise Refused if the group does not exist."""
        row = self.actions.group(owner, int(group))
        if row is None and int(group) != DEFAULT_GROUP_ID:
            raise Refused(404, "Not Found")
        return row

    # -- runners ------------------------------------------------------------------------------------------------------

    def _jitconfig(self, request: Request, owner: str, repository: Repository | None = None) -> Answer:
        body = request.body
        name, group, labels = body.get("name"), body.get("runner_group_id"), body.get("labels")
        if not isinstance(name, str) or not name or not isinstance(group, int) or not labels:
            raise Refused(422, "Invalid request.\n\nname, runner_group_id and labels are required.")
        if repository and group != DEFAULT_GROUP_ID:
            raise Refused(404, "Not Found")
        self._group_or_refuse(owner.partition("/")[2], str(group))
        folder = str(body.get("work_folder") or WORK_FOLDER)
        with self.actions.world.transaction():
            if any(same_name(one.name, name) for one in self.actions.runners(owner)):
                # Source of the message: github.com/runs-on/runs-on/issues/33.
                raise Refused(409, f"Already exists - A runner with the name {name} already exists.")
            runner, credential = self.actions.register(owner, name, group, [str(one) for one in labels], folder)
        blob = jit_config(request.base, runner, credential)
        return as_json(201, {"runner": documents.runner(runner), "encoded_jit_config": blob})

    def _runners(self, request: Request, owner: str, repository: Repository | None = None) -> Answer:
        name = request.option("name")
        runners = [one.outputs for one in self.actions.runners(owner)]
        rows = [one for one in runners if not name or one["name"] == name]
        return paged(request, "runners", rows, documents.runner)

    def _remove(self, request: Request, owner: str, number: str, repository: Repository | None = None) -> Answer:
        with self.actions.world.transaction():
            row = self._runner_or_refuse(owner, number)
            if row["busy"]:
                raise Refused(422, BUSY.format(row["name"]))
            self.actions.remove_runner(owner, row["id"])
        return Answer(204, "", "application/text")

    def _runner_or_refuse(self, owner: str, number: str) -> dict[str, Any]:
        for one in self.actions.runners(owner):
            if one.outputs["id"] == int(number):
                return one.outputs
        raise Refused(404, "Not Found")


def jit_config(base: str, runner: dict[str, Any], credential: str) -> str:
    """Return the runner's configuration files in the form that the runner reads.

    Each file is encoded in base64. The JSON map of the files is encoded in base64 again.
    """
    files = {
        ".runner": {
            "agentId": runner["id"],
            "agentName": runner["name"],
            "serverUrl": base,
            "ephemeral": True,
            "workFolder": runner["workFolder"],
        },
        ".credentials": {"token": credential},
    }
    encoded = {name: base64.b64encode(json.dumps(content).encode()).decode() for name, content in files.items()}
    return base64.b64encode(json.dumps(encoded).encode()).decode()


# The protocol by which a runner in the sandbox gets its job. GitHub's real runner protocol is not documented.
PREFIX = "/_runner/"
UNREGISTERED = "The runner is not registered"
# Quoted in github.com/actions/runner/issues/4203 and others.
DEPRECATED = "Runner version v{} is deprecated and cannot receive messages."


@dataclass(frozen=True)
class RunnerProtocol:
    """Answers requests of registered runners, which send the credential of their registration."""

    actions: Actions

    def answer(self, call: Call) -> Answer:
        runner = self.actions.runner_of(call.authorization.removeprefix("Bearer "))
        if runner is None:
            raise Refused(401, UNREGISTERED)
        if (call.method, call.path) == ("POST", f"{PREFIX}session"):
            version = str((call.body or {}).get("version") or "")
            if version and staleness.runner_refused(version):
                raise Refused(403, DEPRECATED.format(version))
            return as_json(200, {"runner_id": runner["id"]})
        if (call.method, call.path) == ("GET", f"{PREFIX}job"):
            job = self.actions.assign(runner["id"], runner["owner"])
            return as_json(200, self._message(job, runner, call)) if job else Answer(204, "", "application/text")
        if match := re.fullmatch(rf"{PREFIX}job/(\d+)", call.path):
            return self._job(call, runner, int(match[1]))
        raise Refused(404, "Not Found")

    def _job(self, call: Call, runner: dict[str, Any], number: int) -> Answer:
        job = self.actions.job(number)
        if job is None or runner["job"] != number:
            raise Refused(404, "Not Found")
        if call.method == "GET":
            return as_json(200, {"cancelled": job["cancelling"] or job["status"] != IN_PROGRESS})
        if not self.actions.finish(number, call.body["conclusion"], call.body["steps"], call.body["log"]):
            raise Refused(404, "Not Found")
        return Answer(204, "", "application/text")

    def _message(self, row: Record, runner: dict[str, Any], call: Call) -> dict[str, Any]:
        job = row.outputs
        return {
            "job_id": job["id"],
            "name": job["name"],
            "steps": row.inputs["steps"],
            "env": self._environment(job, call) | {"RUNNER_NAME": runner["name"]},
        }

    def _environment(self, job: dict[str, Any], call: Call) -> dict[str, str]:
        """Return the environment variables of a job that do not depend on the machine.

        Source: docs.github.com/en/actions/reference/variables-reference.
        """
        run = self.actions.run(job["runId"]) or {}
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": run.get("fork") or WRITER,
            "GITHUB_API_URL": call.address or API,
            "GITHUB_EVENT_NAME": run.get("event", EVENT),
            "GITHUB_JOB": job["name"],
            "GITHUB_REF": f"refs/heads/{BRANCH}",
            "GITHUB_REF_NAME": BRANCH,
            "GITHUB_REPOSITORY": job["repository"],
            "GITHUB_REPOSITORY_OWNER": job["repository"].partition("/")[0],
            "GITHUB_RUN_ATTEMPT": str(job["attempt"]),
            "GITHUB_RUN_ID": str(job["runId"]),
            "GITHUB_RUN_NUMBER": str(run["number"]),
            "GITHUB_SERVER_URL": WEB,
            "GITHUB_SHA": run["sha"],
            "GITHUB_WORKFLOW": run["workflow"],
        }
