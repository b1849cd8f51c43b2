"""One endpoint: its traffic split, deployed models and operations, and the counts of its requests in Cloud Monitoring.

Paths, bodies and answers follow the discovery documents aiplatform v1 and monitoring v3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pulumi_sandbox.providers.gcp.vertex.service import Query, Service, VertexError, check_labels

BOUNDS_MS = (10.0, 50.0, 100.0, 500.0, 1000.0)
"""The bounds of the buckets of latencies. Google documents none."""


class Requests(NamedTuple):
    """The requests that a deployed model answered in one minute."""

    codes: dict[str, int]
    """Their number by status code."""
    latencies: list[int]
    """Their number in each bucket of BOUNDS_MS."""


class Endpoint(Service):
    """One endpoint.

    Attributes:
        name: projects/PROJECT/locations/LOCATION/endpoints/ID.
        models: The deployed models by id, in the form of the API.
        split: The traffic split, without models that have none.
        revision: The number of changes, which is the etag.
        operations: The operations by name.
        deploy_sec, undeploy_sec: The times that operations take.
        replica_sec: The time from the end of an operation until the first replica is available.
        late_sec: The time from the end of a minute until its counts are complete.
        metrics_start_late_sec: The time from the end of an operation until the model has counts.
    """

    def __init__(self, name: str, now: float) -> None:
        super().__init__(now)
        self.name = name
        self.display_name, self.created = "", now
        self.models: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, str] = {}
        self.split: dict[str, int] = {}
        self.revision = 1
        self.operations: dict[str, dict[str, Any]] = {}
        self.deploy_sec, self.undeploy_sec = 600.0, 120.0
        self.replica_sec = 90.0
        self.late_sec = self.metrics_start_late_sec = 120.0

    # What runs the models. Subclasses extend or replace these.

    def insert(self, model: dict[str, Any]) -> None:
        """Add a deployed model. Raise VertexError if it does not start."""
        version = model["model"].partition("@")[2]
        self.models[model["id"]] = {**model, "modelVersionId": version, "createTime": self.time(self.now)}

    def remove(self, key: str) -> None:
        self.models.pop(key, None)

    def requests_of(self, key: str, minute: int) -> Requests:
        """Return the requests of a deployed model in the minute that begins at this second."""
        return Requests({}, [])

    def set_split(self, split: dict[str, int]) -> None:
        self.split = split
        self.revision += 1

    def conflict(self) -> VertexError:
        """Return the error of a write with an old etag. Google's documents do not name it."""
        return VertexError(409, "ABORTED", "the etag does not match")

    # Methods of the API

    def settle(self) -> None:
        """End the operations whose time has come."""
        for each in self.operations.values():
            if each["done"] or each["end"] > self.now:
                continue
            each["done"] = True
            if each["error"] is None:
                try:
                    each["action"]()
                except VertexError as error:
                    each["error"] = {"code": 13, "message": error.message}  # INTERNAL of google.rpc.Code
                self.revision += 1

    def route(self, method: str, path: str, query: Query, body: Any) -> Any:
        name = path.removeprefix("/v1/")
        if path == f"/v3/{self.name.partition('/locations/')[0]}/timeSeries":
            return self.series(query)
        if method == "GET" and name in self.operations:
            return self.operation(name)
        if method == "GET" and name == self.name:
            return self.resource()
        if method == "PATCH" and name == self.name:
            return self.patch(query, body)
        if method == "POST" and name == f"{self.name}:deployModel":
            return self.deploy(body["deployedModel"], body.get("trafficSplit"))
        if method == "POST" and name == f"{self.name}:undeployModel":
            return self.undeploy(body["deployedModelId"], body.get("trafficSplit"))
        raise VertexError(404, "NOT_FOUND", f"{method} {path} is not found")

    def resource(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "displayName": self.display_name,
            "etag": f"{self.revision}",
            "labels": dict(self.labels),
            "createTime": self.time(self.created),
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

    def patch(self, query: Query, body: Any) -> Any:
        if body.get("etag") and body["etag"] != f"{self.revision}":
            raise self.conflict()
        mask = query["updateMask"][0].split(",")
        labels, split = body.get("labels", {}), body.get("trafficSplit", {})
        check_labels(labels)
        self.check_split(split)
        if "labels" in mask:
            self.labels = dict(labels)
        if "trafficSplit" in mask:
            self.set_split({key: percent for key, percent in split.items() if percent})
        self.revision += 1
        return self.resource()

    def check_split(self, split: dict[str, int], new: str = "") -> None:
        if split and sum(split.values()) != 100:
            raise VertexError(400, "INVALID_ARGUMENT", f"the traffic split sums to {sum(split.values())}")
        for key in split:
            if key not in self.models and key != new:
                raise VertexError(400, "INVALID_ARGUMENT", f"{key} is no deployed model")

    def deploy(self, model: dict[str, Any], split: dict[str, int] | None) -> Any:
        key = model.get("id") or f"{10**9 + self.revision}"
        if not re.fullmatch(r"\d{1,10}", key):
            raise VertexError(400, "INVALID_ARGUMENT", f"the id {key} is invalid")
        if key in self.models or self.is_busy(key):
            raise VertexError(409, "ALREADY_EXISTS", f"the deployed model {key} exists")
        if "@" not in model["model"] or "dedicatedResources" not in model:
            raise VertexError(400, "INVALID_ARGUMENT", "the model needs a version and machines")
        self.check_split(split or {}, "0")

        def action() -> None:
            self.insert({**model, "id": key})
            if split:
                self.set_split({key if each == "0" else each: percent for each, percent in split.items() if percent})

        return self.begin("DeployModel", key, self.deploy_sec, action)

    def undeploy(self, key: str, split: dict[str, int] | None) -> Any:
        if key not in self.models:
            raise VertexError(404, "NOT_FOUND", f"there is no deployed model {key}")
        if self.is_busy(key):
            raise VertexError(400, "FAILED_PRECONDITION", "another operation of the deployed model is running")
        if (self.split if split is None else split).get(key):
            raise VertexError(400, "FAILED_PRECONDITION", "the deployed model has traffic")
        if split is not None:
            self.set_split(dict(split))
        return self.begin("UndeployModel", key, self.undeploy_sec, lambda: self.remove(key))

    def is_busy(self, key: str) -> bool:
        return any(not each["done"] and each["id"] == key for each in self.operations.values())

    def begin(self, kind: str, key: str, seconds: float, action: Callable[[], None]) -> Any:
        name = f"{self.name}/operations/{len(self.operations) + 1}"
        self.operations[name] = {
            "id": key, "kind": kind, "done": False, "begin": self.now, "end": self.now + seconds, "error": None,
            "action": action,
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

    def series(self, query: Query) -> Any:
        """Return the counts of responses or latencies by minute. Other queries are refused."""
        found = re.search(r'metric\.type="(aiplatform\.googleapis\.com/prediction/online/\w+)"', query["filter"][0])
        if not found or query["aggregation.perSeriesAligner"] != ["ALIGN_DELTA"]:
            raise VertexError(
                400, "INVALID_ARGUMENT", "the sandbox has counts and latencies of predictions, aligned by ALIGN_DELTA"
            )
        begin, end = (self.seconds(query[f"interval.{each}"][0]) for each in ("startTime", "endTime"))
        is_latency = found[1].endswith("/prediction_latencies")
        points: dict[tuple[str, str], list[Any]] = {}
        for at in range(begin, end, 60):
            for key, model in self.models.items():
                if at < self.seconds(model["createTime"]) + self.metrics_start_late_sec:
                    continue
                for code, value in self.values(key, at, is_latency):
                    interval = {"startTime": self.time(at), "endTime": self.time(at + 60)}
                    points.setdefault((key, code), []).append({"interval": interval, "value": value})
        project = self.name.split("/")[1]
        series = [
            {
                "metric": {
                    "type": found[1],
                    "labels": {"deployed_model_id": key} | ({"response_code": code} if code else {}),
                },
                "resource": {"type": "aiplatform.googleapis.com/Endpoint", "labels": {"project_id": project}},
                "metricKind": "DELTA",
                "valueType": "DISTRIBUTION" if is_latency else "INT64",
                "points": each[::-1],
            }
            for (key, code), each in points.items()
        ]
        return {"timeSeries": series} if series else {}

    def values(self, key: str, at: int, is_latency: bool) -> Iterator[tuple[str, Any]]:
        """Yield the code and the value of each point of a minute."""
        codes, latencies = self.requests_of(key, at)
        is_complete = at + 60 + self.late_sec <= self.now
        if not is_latency:
            for code, count in codes.items():
                # The counts of different codes do not arrive together.
                if is_complete or code != "200":
                    yield code, {"int64Value": str(count)}
        elif is_complete and codes:
            distribution = {
                "count": str(sum(latencies)),
                "bucketOptions": {"explicitBuckets": {"bounds": BOUNDS_MS}},
                "bucketCounts": [str(each) for each in latencies],
            }
            yield "", {"distributionValue": distribution}
