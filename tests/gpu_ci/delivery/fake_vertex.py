"""A strict fake of one Vertex AI endpoint and of its metrics, at the level of HTTP, with faults at chosen requests."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httplib2

from tests.gpu_ci.cli import json_server

PROJECT, LOCATION = "acme", "europe-west4"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
ENDPOINT = f"{PARENT}/endpoints/7001"
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
MACHINES = {
    "machineSpec": {"machineType": "g2-standard-8", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1},
    "minReplicaCount": 1,
    "maxReplicaCount": 2,
}
BOUNDS_MS = [10.0, 50.0, 100.0, 500.0, 1000.0]


class Killed(BaseException):
    """The program was killed in a request."""


class Answer(Exception):  # noqa: N818 - the answer of a request
    """An error of the API."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@cache
def drawn(seed: str, rate: float, count: int) -> int:
    """Return how many of the requests have failed or are slow."""
    noise = random.Random(seed)
    return sum(noise.random() < rate for _ in range(count))


class FakeVertex:
    """One endpoint. `request` is that of httplib2.

    Attributes:
        now: The time in seconds since 1970, which `sleep` advances.
        requests: The recorded requests: method, path, query and body.
        splits: Each traffic split that the endpoint had.
        changes: The requests that changed something, in order: patch, deploy, undeploy, with their bodies.
        fault: Gets the number of a request, its method and path, and returns the name of a fault, or nothing.
        rates: The error rate of each version; others have 1 %.
        slow: The share of slow requests of each version; others have 2 %.
        per_minute: The requests of the endpoint per minute.
    """

    def __init__(self, seed: int = 0, stable: bool = True) -> None:
        self.random = random.Random(seed)
        self.now = 1_800_000_000.0
        self.requests: list[tuple[str, str, dict[str, list[str]], Any]] = []
        self.changes: list[tuple[str, Any]] = []
        self.splits: list[dict[str, int]] = []
        self.fault: Callable[[int, str, str], str | None] = lambda number, method, path: None
        self.other_writer: Callable[[], None] = self.relabel
        self.rates: dict[str, float] = {}
        self.slow: dict[str, float] = {}
        self.per_minute = 600
        self.late_sec = 120
        self.metrics_start_late_sec = 120
        self.deploy_sec, self.undeploy_sec = 600, 120
        self.replica_sec = 90
        self.models: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, str] = {"team": "vision"}
        self.split: dict[str, int] = {}
        self.revision = 1
        self.operations: dict[str, dict[str, Any]] = {}
        self.shares: list[tuple[float, dict[str, int]]] = []
        self.removed_while_open: list[str] = []
        if stable:
            self.add("5001", "3", "scan-3")
            self.set_split({"5001": 100})
        self.shares = [(self.now, dict(self.split))]

    def add(self, key: str, version: str, name: str) -> None:
        self.models[key] = {
            "id": key,
            "model": f"{PARENT}/models/scan@{version}",
            "modelVersionId": version,
            "displayName": name,
            "createTime": self.time(self.now),
            "dedicatedResources": MACHINES,
            "serviceAccount": "serving@acme.iam.gserviceaccount.com",
        }

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def relabel(self) -> None:
        """Change the endpoint as another program does."""
        self.labels["team"] = f"vision-{self.revision}"
        self.revision += 1

    def set_split(self, split: dict[str, int]) -> None:
        assert not split or sum(split.values()) == 100, split
        assert set(split) <= set(self.models), (split, list(self.models))
        self.split = split
        self.splits.append(split)
        self.shares.append((self.now, split))
        self.revision += 1

    def settle(self) -> None:
        """End the operations whose time has come."""
        for each in self.operations.values():
            if each["done"] or each["end"] > self.now:
                continue
            each["done"] = True
            if each["error"] is None:
                each["action"]()
                self.revision += 1

    # HTTP

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> tuple[httplib2.Response, bytes]:
        self.now += 0.1
        self.settle()
        address = urlsplit(uri)
        query = parse_qs(address.query)
        query.pop("alt", None)
        value = json.loads(body) if body else None
        number = len(self.requests)
        self.requests.append((method, address.path, query, value))
        fault = self.fault(number, method, address.path)
        if fault == "other-writer":
            self.other_writer()
        if fault == "kill-before":
            raise Killed
        if fault == "lost-request":
            raise ConnectionResetError("connection reset")
        status, answer = self.answer(method, address.path, query, value, fault)
        if fault == "kill-after":
            raise Killed
        if fault == "lost-answer":
            raise ConnectionResetError("connection reset")
        response = httplib2.Response({"status": str(status), "content-type": "application/json; charset=UTF-8"})
        return response, json.dumps(answer).encode()

    def close(self) -> None:
        pass

    def answer(self, method: str, path: str, query: Any, body: Any, fault: str | None) -> tuple[int, Any]:
        try:
            if fault == "quota":
                raise Answer(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com")
            if fault == "forbidden":
                raise Answer(403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.update' denied")
            if fault == "outage":
                raise Answer(503, "UNAVAILABLE", "The service is currently unavailable.")
            return 200, self.route(method, path, query, body, fault)
        except Answer as error:
            return error.code, {"error": {"code": error.code, "message": str(error), "status": error.status}}

    def route(self, method: str, path: str, query: Any, body: Any, fault: str | None) -> Any:
        name = path.removeprefix("/v1/")
        if path == f"/v3/projects/{PROJECT}/timeSeries":
            return self.series(query, fault)
        if method == "GET" and name in self.operations:
            return self.operation(name)
        if method == "GET" and name == ENDPOINT:
            return self.resource()
        if method == "PATCH" and name == ENDPOINT:
            return self.patch(query, body)
        if method == "POST" and name == f"{ENDPOINT}:deployModel":
            return self.deploy(body["deployedModel"], body.get("trafficSplit"), fault)
        if method == "POST" and name == f"{ENDPOINT}:undeployModel":
            return self.undeploy(body["deployedModelId"], body.get("trafficSplit"), fault)
        raise Answer(404, "NOT_FOUND", f"{method} {path} is not found")

    # Methods of the API

    def resource(self) -> dict[str, Any]:
        return {
            "name": ENDPOINT,
            "displayName": "scan",
            "etag": f"etag-{self.revision}",
            "labels": dict(self.labels),
            "createTime": self.time(1_799_000_000),
            "updateTime": self.time(self.now),
            **({"deployedModels": [self.with_status(each) for each in self.models.values()]} if self.models else {}),
            **({"trafficSplit": dict(self.split)} if self.split else {}),
        }

    def with_status(self, model: dict[str, Any]) -> dict[str, Any]:
        """Return a deployed model with its replicas, which come after the operation has ended."""
        available = int(self.now >= self.seconds(model["createTime"]) + self.replica_sec)
        # As in JSON of a proto, a count of 0 is left out.
        count = {"availableReplicaCount": available} if available else {}
        return {**model, "status": {**count, "lastUpdateTime": self.time(self.now)}}

    def patch(self, query: Any, body: Any) -> Any:
        if body.get("etag") and body["etag"] != f"etag-{self.revision}":
            raise self.random.choice(
                [
                    Answer(409, "ABORTED", "the etag does not match"),
                    Answer(412, "FAILED_PRECONDITION", "the etag does not match"),
                    Answer(400, "FAILED_PRECONDITION", "the etag does not match"),
                ]
            )
        mask = query["updateMask"][0].split(",")
        labels, split = body.get("labels", {}), body.get("trafficSplit", {})
        for key, value in labels.items():
            if not (LABEL.fullmatch(key) and LABEL.fullmatch(value)) or not key[:1].isalpha():
                raise Answer(400, "INVALID_ARGUMENT", f"the label {key}={value} is invalid")
        self.check_split(split)
        self.changes.append(("patch", body))
        if "labels" in mask:
            self.labels = dict(labels)
        if "trafficSplit" in mask:
            self.set_split({key: percent for key, percent in split.items() if percent})
        self.revision += 1
        return self.resource()

    def check_split(self, split: dict[str, int], new: str = "") -> None:
        if split and sum(split.values()) != 100:
            raise Answer(400, "INVALID_ARGUMENT", f"the traffic split sums to {sum(split.values())}")
        for key in split:
            if key not in self.models and key != new:
                raise Answer(400, "INVALID_ARGUMENT", f"{key} is no deployed model")

    def deploy(self, model: dict[str, Any], split: Any, fault: str | None) -> Any:
        key = model.get("id") or str(self.random.randrange(10**9, 10**10))
        if not re.fullmatch(r"\d{1,10}", key):
            raise Answer(400, "INVALID_ARGUMENT", f"the id {key} is invalid")
        running = [each for each in self.operations.values() if not each["done"] and each["id"] == key]
        if key in self.models or running:
            raise Answer(409, "ALREADY_EXISTS", f"the deployed model {key} exists")
        if "@" not in model["model"] or "dedicatedResources" not in model:
            raise Answer(400, "INVALID_ARGUMENT", "the model needs a version and machines")
        version = model["model"].partition("@")[2]
        self.check_split(split or {}, "0")
        self.changes.append(("deploy", model))

        def action() -> None:
            self.add(key, version, model.get("displayName", ""))
            self.models[key] |= {
                each: model[each] for each in ("dedicatedResources", "serviceAccount") if each in model
            }
            if split:
                self.set_split({key if each == "0" else each: percent for each, percent in split.items() if percent})

        return self.begin("DeployModel", key, self.deploy_sec, action, fault)

    def undeploy(self, key: str, split: Any, fault: str | None) -> Any:
        if key not in self.models:
            raise Answer(404, "NOT_FOUND", f"there is no deployed model {key}")
        if any(not each["done"] and each["id"] == key for each in self.operations.values()):
            raise Answer(400, "FAILED_PRECONDITION", "another operation of the deployed model is running")
        if (self.split if split is None else split).get(key):
            raise Answer(400, "FAILED_PRECONDITION", "the deployed model has traffic")
        if self.labels.get("gpu-ci-status") in ("open", "paused"):
            self.removed_while_open.append(key)
        self.changes.append(("undeploy", key))
        if split is not None:
            self.set_split(dict(split))
        return self.begin("UndeployModel", key, self.undeploy_sec, lambda: self.remove(key), fault)

    def remove(self, key: str) -> None:
        assert key not in self.split, f"{key} is removed with traffic"
        self.models.pop(key, None)

    def begin(self, kind: str, key: str, seconds: float, action: Callable[[], None], fault: str | None) -> Any:
        name = f"{ENDPOINT}/operations/{len(self.operations) + 1}"
        error = {"code": 13, "message": "the operation failed"} if fault == "failed-operation" else None
        self.operations[name] = {
            "id": key, "kind": kind, "done": False, "end": self.now + seconds, "error": error, "action": action,
            "begin": self.now,
        }  # fmt: skip
        return self.operation(name)

    def operation(self, name: str) -> Any:
        found = self.operations[name]
        kind = f"google.cloud.aiplatform.v1.{found['kind']}"
        times = {"createTime": self.time(found["begin"]), "updateTime": self.time(self.now)}
        answer: dict[str, Any] = {
            "name": name,
            "metadata": {"@type": f"type.googleapis.com/{kind}OperationMetadata", "genericMetadata": times},
        }
        if found["done"]:
            answer["done"] = True
            if found["error"]:
                answer["error"] = found["error"]
            elif found["kind"] == "DeployModel":
                model = self.models.get(found["id"], {"id": found["id"]})
                answer["response"] = {"@type": f"type.googleapis.com/{kind}Response", "deployedModel": model}
            else:
                answer["response"] = {"@type": f"type.googleapis.com/{kind}Response"}
        return answer

    # Metrics

    def series(self, query: Any, fault: str | None) -> Any:
        assert query["aggregation.perSeriesAligner"] == ["ALIGN_DELTA"], query
        if fault == "late-metrics":
            return {}
        begin, end = (self.seconds(query[f"interval.{each}"][0]) for each in ("startTime", "endTime"))
        is_latency = "prediction_latencies" in query["filter"][0]
        points: dict[tuple[str, str], list[Any]] = {}
        for at in range(begin, end, 60):
            is_complete = at + 60 + self.late_sec <= self.now
            for key, percent in self.share(at).items():
                found = self.models.get(key)
                if found is None or at < self.seconds(found["createTime"]) + self.metrics_start_late_sec:
                    continue
                for code, value in self.values(key, found["modelVersionId"], at, percent, is_latency, is_complete):
                    interval = {"startTime": self.time(at), "endTime": self.time(at + 60)}
                    points.setdefault((key, code), []).append({"interval": interval, "value": value})
        return {
            "timeSeries": [
                {
                    "metric": {
                        "type": "aiplatform.googleapis.com/prediction/online/response_count",
                        "labels": {"deployed_model_id": key} | ({"response_code": code} if code else {}),
                    },
                    "resource": {"type": "aiplatform.googleapis.com/Endpoint", "labels": {"project_id": PROJECT}},
                    "metricKind": "DELTA",
                    "valueType": "DISTRIBUTION" if is_latency else "INT64",
                    "points": each[::-1],
                }
                for (key, code), each in points.items()
            ]
        }

    def values(
        self, key: str, version: str, at: int, percent: int, is_latency: bool, is_complete: bool
    ) -> list[tuple[str, Any]]:
        count = self.per_minute * percent // 100
        rate = self.slow.get(version, 0.02) if is_latency else self.rates.get(version, 0.01)
        bad = drawn(f"{key} {at}", rate, count)
        if not is_complete:
            # The counts of different codes do not arrive together.
            return [] if is_latency or not bad else [("503", {"int64Value": str(bad)})]
        if not is_latency:
            return [("200", {"int64Value": str(count - bad)})] + ([("503", {"int64Value": str(bad)})] if bad else [])
        counts = ["0", str(count - bad), "0", "0", str(bad), "0", "0"]
        distribution = {
            "count": str(count),
            "bucketOptions": {"explicitBuckets": {"bounds": BOUNDS_MS}},
            "bucketCounts": counts,
        }
        return [("", {"distributionValue": distribution})]

    def share(self, at: float) -> dict[str, int]:
        """Return the traffic split at a time."""
        return next(split for begin, split in reversed(self.shares) if begin <= at or begin == self.shares[0][0])

    @staticmethod
    def time(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    @staticmethod
    def seconds(time: str) -> int:
        return int(datetime.fromisoformat(time).timestamp())


def served(fake: FakeVertex) -> AbstractContextManager[str]:
    """Serve the fake over HTTP on this computer. Yields the address."""

    def respond(request: BaseHTTPRequestHandler, given: bytes) -> tuple[int, bytes]:
        # google-cloud-aiplatform reads operations below /ui/, as its transport for REST says.
        path = request.path.replace("/ui/", "/v1/", 1)
        response, body = fake.request(f"http://fake{path}", request.command, given)
        return int(response["status"]), body

    return json_server.served(respond)
