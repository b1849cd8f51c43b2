"""The protocol by which a runner in the sandbox gets its job. GitHub's real runner protocol is not documented."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.github.actions.documents import WEB
from pulumi_sandbox.providers.github.actions.model import CONCLUSIONS, IN_PROGRESS
from pulumi_sandbox.providers.github.actions.state import Actions
from pulumi_sandbox.providers.github.rest import Refused
from pulumi_sandbox.providers.github.world import API
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import Record

PREFIX = "/_runner/"
UNREGISTERED = "The runner is not registered"


@dataclass(frozen=True)
class RunnerProtocol:
    """Answers requests of registered runners, which send the credential of their registration."""

    actions: Actions

    def answer(self, call: Call) -> Answer:
        runner = self.actions.runner_of(call.authorization.removeprefix("Bearer "))
        if runner is None:
            raise Refused(401, UNREGISTERED)
        if (call.method, call.path) == ("POST", f"{PREFIX}session"):
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
        body = call.body if isinstance(call.body, dict) else {}
        conclusion, steps, log = body.get("conclusion"), body.get("steps"), body.get("log", "")
        if conclusion not in CONCLUSIONS or not isinstance(steps, list) or not isinstance(log, str):
            raise Refused(422, f"conclusion, steps and log are required; conclusion is one of {', '.join(CONCLUSIONS)}")
        try:
            step_results = [{key: step[key] for key in ("name", "conclusion", "number")} for step in steps]
        except (KeyError, TypeError):
            raise Refused(422, "steps need name, conclusion and number") from None
        if not self.actions.finish(number, conclusion, step_results, log):
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
            "GITHUB_ACTOR": "octocat",
            "GITHUB_API_URL": call.address or API,
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_JOB": job["name"],
            "GITHUB_REF": f"refs/heads/{run['branch']}",
            "GITHUB_REF_NAME": run["branch"],
            "GITHUB_REPOSITORY": job["repository"],
            "GITHUB_REPOSITORY_OWNER": job["repository"].partition("/")[0],
            "GITHUB_RUN_ATTEMPT": str(job["attempt"]),
            "GITHUB_RUN_ID": str(job["runId"]),
            "GITHUB_RUN_NUMBER": str(run["number"]),
            "GITHUB_SERVER_URL": WEB,
            "GITHUB_SHA": run["sha"],
            "GITHUB_WORKFLOW": run["workflow"],
        }
