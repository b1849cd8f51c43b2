"""The sandbox's endpoint of Vertex AI with faults at chosen requests, and drawn counts of requests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httplib2
from pulumi_sandbox.providers.gcp.vertex.endpoint import Endpoint, Requests
from pulumi_sandbox.providers.gcp.vertex.service import Service, VertexError

from tests.gpu_ci.cli import json_server

PROJECT, LOCATION = "acme", "europe-west4"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
ENDPOINT = f"{PARENT}/endpoints/7001"
BEGIN = 1_800_000_000.0
MACHINES = {
    "machineSpec": {"machineType": "g2-standard-8", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1},
    "minReplicaCount": 1,
    "maxReplicaCount": 2,
}
ERRORS = {
    "quota": (429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com"),
    "forbidden": (403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.update' denied"),
    "outage": (503, "UNAVAILABLE", "The service is currently unavailable."),
}


class Killed(BaseException):
    """The program was killed in a request."""


@cache
def drawn(seed: str, rate: float, count: int) -> int:
    """Return how many of the requests have failed or are slow."""
    noise = random.Random(seed)
    return sum(noise.random() < rate for _ in range(count))


class Faulty(Service):
    """A service with faults. `request` is that of httplib2.

    Attributes:
        requests: The recorded requests: method, path, query and body.
        fault: Gets the number of a request, its method and path, and returns the name of a fault, or nothing.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, BEGIN)  # type: ignore[call-arg]  # the next class is one with a name
        self.requests: list[tuple[str, str, dict[str, list[str]], Any]] = []
        self.fault: Callable[[int, str, str], str | None] = lambda number, method, path: None
        self.other_writer: Callable[[], None] = lambda: None
        self.current: str | None = None
        """The fault of the current request."""

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> tuple[httplib2.Response, bytes]:
        self.now += 0.1
        self.settle()
        address = urlsplit(uri)
        query = parse_qs(address.query)
        query.pop("alt", None)
        value = json.loads(body) if body else None
        number = len(self.requests)
        self.requests.append((method, address.path, query, value))
        self.current = fault = self.fault(number, method, address.path)
        if fault == "other-writer":
            self.other_writer()
        if fault == "kill-before":
            raise Killed
        if fault == "lost-request":
            raise ConnectionResetError("connection reset")
        status, answer = self.answer(method, address.path, query, value)
        if fault == "kill-after":
            raise Killed
        if fault == "lost-answer":
            raise ConnectionResetError("connection reset")
        response = httplib2.Response({"status": str(status), "content-type": "application/json; charset=UTF-8"})
        return response, json.dumps(answer).encode()

    def close(self) -> None:
        pass

    def route(self, method: str, path: str, query: Any, body: Any) -> Any:
        if self.current in ERRORS:
            raise VertexError(*ERRORS[self.current])
        return super().route(method, path, query, body)


class FakeVertex(Faulty, Endpoint):
    """One endpoint.

    Attributes:
        splits: Each traffic split that the endpoint had.
        changes: The requests that changed something, in order: patch, deploy, undeploy, with their bodies.
        rates: The error rate of each version; others have 1 %.
        slow: The share of slow requests of each version; others have 2 %.
        per_minute: The requests of the endpoint per minute.
    """

    def __init__(self, seed: int = 0, stable: bool = True) -> None:
        super().__init__(ENDPOINT)
        self.random = random.Random(seed)
        self.other_writer = self.relabel
        self.changes: list[tuple[str, Any]] = []
        self.splits: list[dict[str, int]] = []
        self.rates: dict[str, float] = {}
        self.slow: dict[str, float] = {}
        self.per_minute = 600
        self.labels = {"team": "vision"}
        self.shares: list[tuple[float, dict[str, int]]] = []
        self.removed_while_open: list[str] = []
        if stable:
            self.add("5001", "3", "scan-3")
            self.set_split({"5001": 100})
        self.shares = [(self.now, dict(self.split))]

    def add(self, key: str, version: str, name: str) -> None:
        model = {"id": key, "model": f"{PARENT}/models/scan@{version}", "displayName": name}
        account = "serving@acme.iam.gserviceaccount.com"
        self.insert({**model, "dedicatedResources": MACHINES, "serviceAccount": account})

    def relabel(self) -> None:
        """Change the endpoint as another program does."""
        self.labels["team"] = f"vision-{self.revision}"
        self.revision += 1

    def set_split(self, split: dict[str, int]) -> None:
        assert not split or sum(split.values()) == 100, split
        assert set(split) <= set(self.models), (split, list(self.models))
        super().set_split(split)
        self.splits.append(split)
        self.shares.append((self.now, split))

    def remove(self, key: str) -> None:
        assert key not in self.split, f"{key} is removed with traffic"
        super().remove(key)

    def conflict(self) -> VertexError:
        codes = [(409, "ABORTED"), (412, "FAILED_PRECONDITION"), (400, "FAILED_PRECONDITION")]
        return VertexError(*self.random.choice(codes), "the etag does not match")

    def patch(self, query: Any, body: Any) -> Any:
        answer = super().patch(query, body)
        self.changes.append(("patch", body))
        return answer

    def deploy(self, model: dict[str, Any], split: Any) -> Any:
        answer = super().deploy(model, split)
        self.changes.append(("deploy", model))
        return answer

    def undeploy(self, key: str, split: Any) -> Any:
        answer = super().undeploy(key, split)
        if self.labels.get("gpu-ci-status") in ("open", "paused"):
            self.removed_while_open.append(key)
        self.changes.append(("undeploy", key))
        return answer

    def begin(self, *arguments: Any) -> Any:
        answer = super().begin(*arguments)
        if self.current == "failed-operation":
            self.operations[answer["name"]]["error"] = {"code": 13, "message": "the operation failed"}
        return answer

    def series(self, query: Any) -> Any:
        return {} if self.current == "late-metrics" else super().series(query)

    def requests_of(self, key: str, minute: int) -> Requests:
        percent = self.share(minute).get(key)
        if percent is None:
            return Requests({}, [])
        count, version = self.per_minute * percent // 100, self.models[key]["modelVersionId"]
        bad = drawn(f"{key} {minute}", self.rates.get(version, 0.01), count)
        slow = drawn(f"{key} {minute}", self.slow.get(version, 0.02), count)
        return Requests({"200": count - bad} | ({"503": bad} if bad else {}), [0, count - slow, 0, 0, slow, 0])

    def share(self, at: float) -> dict[str, int]:
        """Return the traffic split at a time."""
        return next(split for begin, split in reversed(self.shares) if begin <= at or begin == self.shares[0][0])


def served(fake: Faulty) -> AbstractContextManager[str]:
    """Serve the fake over HTTP on this computer. Yields the address."""

    def respond(request: BaseHTTPRequestHandler, given: bytes) -> tuple[int, bytes]:
        # google-cloud-aiplatform reads operations below /ui/, as its transport for REST says.
        path = request.path.replace("/ui/", "/v1/", 1)
        response, body = fake.request(f"http://fake{path}", request.command, given)
        return int(response["status"]), body

    return json_server.served(respond)
