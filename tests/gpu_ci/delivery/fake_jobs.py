"""The sandbox's custom jobs of Vertex AI with faults, and with states by their age."""

from __future__ import annotations

from copy import copy
from typing import Any

from gpu_ci.delivery.rollout.loop import Clock
from gpu_ci.delivery.training.jobs import Jobs
from pulumi_sandbox.providers.gcp.vertex.jobs import CustomJobs

from . import google_requests
from .fake_vertex import PARENT, Faulty
from .rollouts import clients


class FakeJobs(Faulty, CustomJobs):
    """The custom jobs of one location. Every request must fit the discovery document.

    Attributes:
        run_sec: The time that a job runs, after 60 s in which machines start.
        end: The state in which jobs end.
    """

    def __init__(self) -> None:
        super().__init__(PARENT)
        self.run_sec = 1200.0
        self.end = "SUCCEEDED"

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        super().sleep(seconds)

    def result(self, name: str) -> tuple[str, str] | None:
        error = "The replica workerpool0-0 exited with 1 | <b>" if self.end == "FAILED" else ""
        return (self.end, error) if self.age(name) >= 60 + self.run_sec else None

    def active(self) -> list[str]:
        """Return the jobs that were not cancelled."""
        return [name for name in self.jobs if name not in self._cancelled]

    def posts(self) -> list[Any]:
        """Return the body of each request to create a job."""
        return [body for method, path, _, body in self.requests if method == "POST" and path.endswith("/customJobs")]

    def route(self, method: str, path: str, query: Any, body: Any) -> Any:
        # Google's own client sends $alt, which no discovery document has.
        google_requests.check(method, path, {name: query[name] for name in query if name != "$alt"}, body)
        return super().route(method, path, query, body)


def client(fake: Faulty) -> Any:
    """Return Google's client with the fake as its connection."""
    api = copy(clients()[0])
    api.fake = fake
    return api


def jobs_of(fake: FakeJobs, said: list[str] | None = None) -> Jobs:
    """Return the jobs of the fake, with its time."""
    say = (lambda _: None) if said is None else said.append
    return Jobs(client(fake), PARENT, Clock(lambda: fake.now, fake.sleep), say)
