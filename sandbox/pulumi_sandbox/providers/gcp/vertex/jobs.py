"""The custom jobs of one location. Lists may be late."""

from __future__ import annotations

import re
from typing import Any

from pulumi_sandbox.providers.gcp.vertex.service import Query, Service, VertexError, check_labels

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")
_PENDING_SEC, _RUNNING_SEC = 5, 60
"""The times from the creation of a job until machines start, and until they run."""


class CustomJobs(Service):
    """The custom jobs of projects/PROJECT/locations/LOCATION.

    Attributes:
        jobs: The jobs by name, in the order of their creation.
        list_late_sec: The time after which a list has a new job.
        cancel_sec: The time until the state is CANCELLING, and that until it is CANCELLED.
    """

    def __init__(self, parent: str, now: float) -> None:
        super().__init__(now)
        self.parent = parent
        self.jobs: dict[str, dict[str, Any]] = {}
        self.list_late_sec = 0.0
        self.cancel_sec = 20.0
        self._begin: dict[str, float] = {}
        self._cancelled: dict[str, float] = {}

    # What runs the jobs. Subclasses replace these.

    def run(self, name: str) -> None:
        """Start the command of a job."""

    def result(self, name: str) -> tuple[str, str] | None:
        """Return the state in which a running job ends and the message of its error, or None while it runs."""
        raise NotImplementedError

    # Methods of the API

    def settle(self) -> None:
        for name, job in self.jobs.items():
            state, age = self.state(name), self.age(name)
            if state in ENDED:
                continue
            if name in self._cancelled:
                over_sec = self.now - self._cancelled[name] - self.cancel_sec
                if over_sec >= 0:
                    self.set_state(name, "CANCELLING" if over_sec < self.cancel_sec else "CANCELLED")
                continue
            if state != "RUNNING" and age >= _RUNNING_SEC:
                self.run(name)
                job["startTime"] = self.time(self.now)
                self.set_state(name, "RUNNING")
            elif state == "QUEUED" and age >= _PENDING_SEC:
                self.set_state(name, "PENDING")
            if self.state(name) == "RUNNING" and (end := self.result(name)):
                self.set_state(name, *end)

    def age(self, name: str) -> float:
        return self.now - self._begin[name]

    def state(self, name: str) -> str:
        return str(self.jobs[name]["state"]).removeprefix("JOB_STATE_")

    def set_state(self, name: str, state: str, error: str = "") -> None:
        self.jobs[name]["state"] = f"JOB_STATE_{state}"
        if state in ENDED:
            self.jobs[name]["endTime"] = self.time(self.now)
        if error:
            self.jobs[name]["error"] = {"code": 3, "message": error}

    def route(self, method: str, path: str, query: Query, body: Any) -> Any:
        name, _, verb = path.removeprefix("/v1/").partition(":")
        if name == f"{self.parent}/customJobs":
            return self.create(body) if method == "POST" else self.listed(query)
        if name not in self.jobs:
            raise VertexError(404, "NOT_FOUND", f"{name} is not found")
        if verb == "cancel":
            if self.state(name) in ENDED:
                raise VertexError(400, "FAILED_PRECONDITION", "the job has ended")
            self.cancel(name)
            return {}
        return self.jobs[name]

    def cancel(self, name: str) -> None:
        self._cancelled.setdefault(name, self.now)
        self.settle()

    def create(self, body: Any) -> Any:
        pools = body["jobSpec"]["workerPoolSpecs"]
        if pools[0]["replicaCount"] != "1":
            raise VertexError(400, "INVALID_ARGUMENT", "the primary worker pool has one replica")
        scheduling = body["jobSpec"]["scheduling"]
        if "maxWaitDuration" in scheduling and scheduling["strategy"] != "FLEX_START":
            raise VertexError(400, "INVALID_ARGUMENT", "maxWaitDuration is for FLEX_START")
        if len(body["displayName"]) > 128 or not body["displayName"]:
            raise VertexError(400, "INVALID_ARGUMENT", "the display name is invalid")
        check_labels(body["labels"])
        name = f"{self.parent}/customJobs/{4711 + len(self.jobs)}"
        self._begin[name] = self.now
        self.jobs[name] = {
            **body, "name": name, "state": "JOB_STATE_QUEUED", "createTime": self.time(self.now),
        }  # fmt: skip
        return self.jobs[name]

    def listed(self, query: Query) -> Any:
        """Return a page with one job, so that clients must read the next one."""
        found = re.fullmatch(r"labels\.([a-z-]+)=([0-9a-f]+)", query["filter"][0])
        if not found:
            raise VertexError(501, "UNIMPLEMENTED", "the sandbox filters jobs by one label")
        names = [
            name
            for name, job in self.jobs.items()
            if job["labels"].get(found[1]) == found[2] and self.age(name) >= self.list_late_sec
        ]
        names.reverse()
        at = int(query.get("pageToken", ["0"])[0])
        more = {"nextPageToken": str(at + 1)} if at + 1 < len(names) else {}
        return ({"customJobs": [self.jobs[names[at]]]} if names else {}) | more
