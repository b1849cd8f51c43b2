"""GitHub's Actions service, as ARC and the runner manager use it: scale sets, their runners, sessions and messages.

Requests, answers and field names are those of actions/scaleset@6ce0259 (client.go, session_client.go, types.go).
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json

SCALE_SETS, MESSAGES = "/_apis/runtime/runnerscalesets", "/messages"
AGENTS = "/_apis/distributedtask/pools/0/agents"
Payload = dict[str, Any]


def _problem(status: int, name: str, text: str = "") -> Answer:
    return as_json(status, {"typeName": f"GitHub.Actions.{name}, GitHub.Actions", "message": text or name})


class ActionsService:
    """One organization with any runner group.

    A request for a message waits `hold_sec`. A set has one session, whose queue keeps each message until it is
    acknowledged.
    """

    def __init__(self, hold_sec: float = 50.0) -> None:
        self.server = LocalServer("actions", self._answer, ("GET", "POST", "PATCH", "DELETE"))
        self.url = f"http://{self.server.address}"
        self.sets: dict[int, Payload] = {}
        self.sessions: dict[int, Payload] = {}
        """The session of each set."""
        self.waiting: dict[int, list[Payload]] = {}
        """The messages of each set that are not acknowledged."""
        self.runners: dict[str, int] = {}
        """The set of each runner by its name."""
        self._references: dict[int, Payload] = {}
        self.jobs: dict[int, dict[int, str]] = {}
        """Of each set, the state of its jobs: available, assigned or running."""
        self.asked: list[str] = []
        self.capacities: list[str] = []
        """The header X-ScaleSetMaxCapacity of each request for a message."""
        self.faults: dict[str, list[Answer]] = {}
        """Answers instead of the usual ones, by a part of method and path."""
        self.on_acknowledged: Callable[[], object] = lambda: None
        self.custom_labels = True
        """False as on an Enterprise Server without the feature: the name is the only label."""
        self._hold_sec, self._numbers, self._groups = hold_sec, itertools.count(1), {"": 1}
        self._changed = threading.Condition()
        self._tokens: set[str] = set()

    def queue(
        self, repository: str, run: int, labels: Iterable[str], kind: str = "JobAssigned", request: int = 0
    ) -> int:
        """Queue a job, or send another message of `kind` about the job `request`. Return its number."""
        with self._changed:
            asked = {label.lower() for label in labels}
            number = next(each for each, found in self.sets.items() if asked <= _labels(found))
            owner, _, name = repository.partition("/")
            request = request or next(self._numbers)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            job: Payload = {
                "messageType": kind, "runnerRequestId": request, "repositoryName": name, "ownerName": owner,
                "jobId": str(uuid4()), "jobWorkflowRef": f"{repository}/.github/workflows/ci.yml@refs/heads/main",
                "jobDisplayName": "gpu tests", "workflowRunId": run, "eventName": "push",
                "requestLabels": sorted(asked), "queueTime": now, "scaleSetAssignTime": now,
                "runnerAssignTime": "0001-01-01T00:00:00Z", "finishTime": "0001-01-01T00:00:00Z",
            }  # fmt: skip
            states = {"JobAvailable": "available", "JobAssigned": "assigned", "JobStarted": "running"}
            self.jobs[number].pop(request, None)
            if kind in states:
                self.jobs[number][request] = states[kind]
            more: Payload = {"acquireJobUrl": ""} if kind == "JobAvailable" else {}
            if kind in ("JobStarted", "JobCompleted"):
                more = {"runnerId": 1, "runnerName": "l4-0a1b2c3d", "result": "succeeded"}
            self.send(number, json.dumps([job | more]))
            return request

    def send(self, number: int, body: str) -> None:
        """Send a message with this body to a set."""
        with self._changed:
            message = {"messageId": next(self._numbers), "messageType": "RunnerScaleSetJobMessages", "body": body}
            self.waiting[number].append(message)
            self._changed.notify_all()

    def expire(self) -> None:
        """End all tokens."""
        with self._changed:
            self._tokens.clear()
            for session in self.sessions.values():
                session["messageQueueAccessToken"] = "ended"

    def forget(self, number: int) -> None:
        """Delete a set, as GitHub does with sets that were idle for a week."""
        with self._changed:
            for each in (self.sets, self.sessions, self.waiting, self.jobs):
                each.pop(number, None)
            self._changed.notify_all()

    def _answer(self, request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        what = f"{request.command} {path}"
        self.asked.append(what)
        for part, answers in self.faults.items():
            if part in what and answers:
                return answers.pop(0)
        given = json.loads(request.content or b"{}")
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        if path.endswith(("/access_tokens", "/registration-token")):
            return as_json(201, {"token": "token", "expires_at": later})
        if path.endswith("/runner-registration"):
            parts = {"alg": "HS256"}, {"exp": int(time.time()) + 3600}
            token = ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts)
            self._tokens.add(f"{token}.e30")
            return as_json(200, {"url": self.url, "token": f"{token}.e30"})
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        if path.startswith(MESSAGES):
            return self._messages(request, path, bearer, int(asked.get("lastMessageId", 0)))
        if asked.get("api-version") != "6.0-preview":
            return _problem(400, "VssVersionNotSpecifiedException")
        if path.endswith("/acquirejobs"):
            return self._acquire(int(path.split("/")[-2]), bearer, given)
        if bearer not in self._tokens:
            return Answer(401, "", "text/plain")
        with self._changed:
            if path.startswith("/_apis/runtime/runnergroups"):
                number = self._groups.setdefault(asked["groupName"], len(self._groups) + 1)
                return as_json(200, {"count": 1, "value": [{"id": number, "name": asked["groupName"]}]})
            if path.startswith(AGENTS):
                return self._agents(request.command, path.removeprefix(AGENTS).strip("/"), asked.get("agentName", ""))
            return self._scale_sets(request.command, path, given, asked)

    def _agents(self, method: str, number: str, name: str) -> Answer:
        if not number:
            found = [each for each in self._references.values() if each["name"] == name]
            return as_json(200, {"count": len(found), "value": found})
        if method == "DELETE":
            # ARC deletes each runner twice, and takes any other answer for a failure.
            if runner := self._references.pop(int(number), None):
                del self.runners[runner["name"]]
            return Answer(204, "", "application/json")
        if (runner := self._references.get(int(number))) is None:
            return _problem(404, "AgentNotFoundException")
        return as_json(200, runner)

    def _scale_sets(self, method: str, path: str, given: Payload, asked: dict[str, str]) -> Answer:
        number, _, rest = path.removeprefix(SCALE_SETS).strip("/").partition("/")
        if not number:
            if method == "POST":
                return self._create(given)
            found = [each for each in self.sets.values() if each["name"] == asked["name"]]
            return as_json(200, {"count": len(found), "value": found})
        found = self.sets.get(int(number))
        if found is None:
            return _problem(404, "RunnerScaleSetNotFoundException")
        if rest.startswith("sessions"):
            return self._sessions(method, int(number), rest.partition("/")[2], given)
        if rest == "generatejitconfig":
            if given["name"] in self.runners:
                return _problem(409, "AgentExistsException")
            self.runners[given["name"]] = int(number)
            runner = {"id": next(self._numbers), "name": given["name"], "runnerScaleSetId": int(number)}
            self._references[runner["id"]] = runner
            return as_json(200, {"runner": runner, "encodedJITConfig": "e30="})
        if method == "DELETE":
            self.forget(int(number))
            return Answer(204, "", "application/json")
        if method == "PATCH":
            found |= given
        return as_json(200, found)

    def _create(self, given: Payload) -> Answer:
        number = next(self._numbers)
        group = next((name for name, each in self._groups.items() if each == given.get("runnerGroupId")), "")
        self.sets[number] = {**given, "id": number, "runnerGroupName": group}
        if not self.custom_labels:
            self.sets[number]["labels"] = [{"type": "System", "name": given["name"]}]
        self.waiting[number], self.jobs[number] = [], {}
        return as_json(200, self.sets[number])

    def _sessions(self, method: str, number: int, session: str, given: Payload) -> Answer:
        current = self.sessions.get(number, {})
        if method == "POST" and current:
            return _problem(409, "RunnerScaleSetSessionConflictException")
        if method != "POST" and current.get("sessionId") != session:
            return _problem(404, "RunnerScaleSetSessionNotFoundException")
        if method == "DELETE":
            del self.sessions[number]
            return Answer(204, "", "application/json")
        session = session or str(uuid4())
        self.sessions[number] = {
            "sessionId": session,
            "ownerName": current.get("ownerName") or given["ownerName"],
            "runnerScaleSet": self.sets[number],
            "messageQueueUrl": f"{self.url}{MESSAGES}/{number}?sessionId={session}",
            "messageQueueAccessToken": f"queue-{uuid4()}",
            "statistics": self._statistics(number),
        }
        return as_json(200, self.sessions[number])

    def _messages(self, request: Request, path: str, bearer: str, last: int) -> Answer:
        number, _, message = path.removeprefix(f"{MESSAGES}/").partition("/")
        if int(number) not in self.sessions:
            return _problem(404, "RunnerScaleSetSessionNotFoundException")
        if bearer != self.sessions[int(number)]["messageQueueAccessToken"]:
            return Answer(401, "", "text/plain")
        if request.command == "DELETE":
            self.on_acknowledged()
            with self._changed:
                self.waiting[int(number)] = [e for e in self.waiting[int(number)] if e["messageId"] != int(message)]
            return Answer(204, "", "application/json")
        self.capacities.append(request.headers["X-ScaleSetMaxCapacity"])

        def found() -> Payload | bool | None:
            if int(number) not in self.sessions:
                return True
            return next((each for each in self.waiting[int(number)] if each["messageId"] > last), None)

        with self._changed:
            told = self._changed.wait_for(found, self._hold_sec)
            if isinstance(told, dict):
                return as_json(200, told | {"statistics": self._statistics(int(number))})
        return _problem(404, "RunnerScaleSetSessionNotFoundException") if told else Answer(202, "", "text/plain")

    def _acquire(self, number: int, bearer: str, requests: Any) -> Answer:
        if bearer != self.sessions[number]["messageQueueAccessToken"]:
            return Answer(401, "", "text/plain")
        taken = [each for each in requests if self.jobs[number].get(each) == "available"]
        self.jobs[number] |= dict.fromkeys(taken, "assigned")
        return as_json(200, {"count": len(taken), "value": taken})

    def _statistics(self, number: int) -> dict[str, int]:
        states = list(self.jobs[number].values())
        return {
            "totalAvailableJobs": states.count("available"),
            "totalAcquiredJobs": states.count("assigned"),
            "totalAssignedJobs": states.count("assigned") + states.count("running"),
            "totalRunningJobs": states.count("running"),
            "totalRegisteredRunners": list(self.runners.values()).count(number),
            "totalBusyRunners": states.count("running"),
            "totalIdleRunners": 0,
        }


def _labels(found: Payload) -> set[str]:
    return {str(each["name"]).lower() for each in found["labels"]}
