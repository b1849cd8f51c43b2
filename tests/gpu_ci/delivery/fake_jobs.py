"""A strict fake of the custom jobs of Vertex AI, at the level of HTTP. Lists may be late."""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from gpu_ci.delivery.rollout.loop import Clock
from gpu_ci.delivery.training.jobs import Jobs

from . import google_requests
from .fake_vertex import LABEL, PARENT, Answer, FakeVertex
from .rollouts import clients

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


class FakeJobs(FakeVertex):
    """The custom jobs of one location. Every request must fit the discovery document.

    Attributes:
        jobs: The jobs by name, in the order of their creation.
        list_late_sec: The time after which a list has a new job.
        run_sec: The time that a job runs, after 60 s in which machines start.
        result: The state in which jobs end.
        cancel_sec: The time until the state is CANCELLING, and that until it is CANCELLED.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed, stable=False)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.list_late_sec = 0.0
        self.run_sec = 1200.0
        self.result = "SUCCEEDED"
        self.cancel_sec = 20.0
        self._begin: dict[str, float] = {}
        self._cancelled: dict[str, float] = {}

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        super().sleep(seconds)

    def settle(self) -> None:
        for name, job in self.jobs.items():
            state, age = self.state(name), self.now - self._begin[name]
            if state in ENDED:
                continue
            if name in self._cancelled:
                over_sec = self.now - self._cancelled[name] - self.cancel_sec
                if over_sec >= 0:
                    self.set_state(name, "CANCELLING" if over_sec < self.cancel_sec else "CANCELLED")
            elif age >= 60 + self.run_sec:
                self.set_state(name, self.result)
            elif age >= 60:
                job.setdefault("startTime", self.time(self.now))
                self.set_state(name, "RUNNING")
            elif age >= 5:
                self.set_state(name, "PENDING")

    def state(self, name: str) -> str:
        return str(self.jobs[name]["state"]).removeprefix("JOB_STATE_")

    def set_state(self, name: str, state: str) -> None:
        self.jobs[name]["state"] = f"JOB_STATE_{state}"
        if state in ENDED:
            self.jobs[name]["endTime"] = self.time(self.now)
        if state == "FAILED":
            self.jobs[name]["error"] = {"code": 3, "message": "The replica workerpool0-0 exited with 1 | <b>"}

    def active(self) -> list[str]:
        """Return the jobs that were not cancelled."""
        return [name for name in self.jobs if name not in self._cancelled]

    def posts(self) -> list[Any]:
        """Return the body of each request to create a job."""
        return [body for method, path, _, body in self.requests if method == "POST" and path.endswith("/customJobs")]

    def route(self, method: str, path: str, query: Any, body: Any, fault: str | None) -> Any:
        # Google's own client sends $alt, which no discovery document has.
        google_requests.check(method, path, {name: query[name] for name in query if name != "$alt"}, body)
        name, _, verb = path.removeprefix("/v1/").partition(":")
        if name == f"{PARENT}/customJobs":
            return self.create(body) if method == "POST" else self.listed(query)
        if name not in self.jobs:
            raise Answer(404, "NOT_FOUND", f"{name} is not found")
        if verb == "cancel":
            if self.state(name) in ENDED:
                raise Answer(400, "FAILED_PRECONDITION", "the job has ended")
            self.cancel(name)
            return {}
        return self.jobs[name]

    def cancel(self, name: str) -> None:
        self._cancelled.setdefault(name, self.now)
        self.settle()

    def create(self, body: Any) -> Any:
        pools = body["jobSpec"]["workerPoolSpecs"]
        if pools[0]["replicaCount"] != "1":
            raise Answer(400, "INVALID_ARGUMENT", "the primary worker pool has one replica")
        scheduling = body["jobSpec"]["scheduling"]
        if "maxWaitDuration" in scheduling and scheduling["strategy"] != "FLEX_START":
            raise Answer(400, "INVALID_ARGUMENT", "maxWaitDuration is for FLEX_START")
        if len(body["displayName"]) > 128 or not body["displayName"]:
            raise Answer(400, "INVALID_ARGUMENT", "the display name is invalid")
        for key, value in body["labels"].items():
            if not (LABEL.fullmatch(key) and LABEL.fullmatch(value)):
                raise Answer(400, "INVALID_ARGUMENT", f"the label {key}={value} is invalid")
        name = f"{PARENT}/customJobs/{4711 + len(self.jobs)}"
        self._begin[name] = self.now
        self.jobs[name] = {
            **body, "name": name, "state": "JOB_STATE_QUEUED", "createTime": self.time(self.now),
        }  # fmt: skip
        return self.jobs[name]

    def listed(self, query: Any) -> Any:
        """Return a page with one job."""
        found = re.fullmatch(r"labels\.([a-z-]+)=([0-9a-f]+)", query["filter"][0])
        assert found, query
        names = [
            name
            for name, job in self.jobs.items()
            if job["labels"].get(found[1]) == found[2] and self._begin[name] + self.list_late_sec <= self.now
        ]
        names.reverse()
        at = int(query.get("pageToken", ["0"])[0])
        more = {"nextPageToken": str(at + 1)} if at + 1 < len(names) else {}
        return ({"customJobs": [self.jobs[names[at]]]} if names else {}) | more


def client(fake: FakeVertex) -> Any:
    """Return Google's client with the fake as its connection."""
    api = copy(clients()[0])
    api.fake = fake
    return api


def jobs_of(fake: FakeJobs, said: list[str] | None = None) -> Jobs:
    """Return the jobs of the fake, with its time."""
    say = (lambda _: None) if said is None else said.append
    return Jobs(client(fake), PARENT, Clock(lambda: fake.now, fake.sleep), say)
