"""A Vertex AI endpoint, and the counts of its requests in Cloud Monitoring."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

import gpu_catalog

from gpu_ci.delivery.judge import Counts, Minute
from gpu_ci.delivery.rollout.loop import ConflictError, RejectedError, UnavailableError
from gpu_ci.delivery.rollout.settings import Machine, Settings
from gpu_ci.delivery.rollout.state import PREFIX, Deployed, Journal, State
from gpu_ci.delivery.training.settings import ACCELERATORS
from gpu_ci.gcp.gate.google_service import PLATFORM, ApiError, GoogleService
from gpu_ci.gcp.gate.vertex_api import VertexApi, is_conflict

ENDPOINT = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<location>[a-z0-9-]+)/endpoints/(?P<id>[^/]+)")
LATE_SEC = 180
"""The age of the newest minute that is used. Counts arrive up to 120 s late, after a sample of 60 s."""
_KEPT = ("dedicatedResources", "serviceAccount", "disableContainerLogging", "enableAccessLogging")
_PREFIX = "aiplatform.googleapis.com/prediction/online"

Result = TypeVar("Result")


class VertexEndpoint:
    """The target of a rollout."""

    def __init__(self, name: str, api: VertexApi, monitoring: Monitoring) -> None:
        """`name` is projects/PROJECT/locations/LOCATION/endpoints/ID."""
        self.name = name
        self._api = api
        self._monitoring = monitoring

    def read(self) -> State:
        return state_of(_converted(lambda: self._api.endpoint(self.name)))

    def write(self, state: State, split: Mapping[str, int], labels: Mapping[str, str]) -> None:
        _converted(lambda: self._api.update(self.name, state.etag, split, labels))

    def deploy(self, state: State, journal: Journal, settings: Settings) -> str:
        model = self.name.rpartition("/endpoints/")[0] + f"/models/{journal.model}@{journal.version}"
        stable = state.deployed.get(journal.stable)
        definition = {
            **(stable.definition if stable else {}),
            **({"dedicatedResources": _machines(settings.machine)} if settings.machine else {}),
            **({"serviceAccount": settings.service_account} if settings.service_account else {}),
            "id": journal.rollout,
            "model": model,
            "displayName": f"{PREFIX}{journal.rollout}-{journal.version}",
        }
        return _converted(lambda: self._api.deploy(self.name, definition))

    def undeploy(self, id: str) -> str:  # noqa: A002 - the field's name
        return _converted(lambda: self._api.undeploy(self.name, id))

    def result(self, operation: str) -> tuple[bool, str]:
        return _converted(lambda: self._api.operation(operation))

    def minutes(self, state: State, journal: Journal, settings: Settings, now: int) -> list[Minute]:
        begin, end = state.deployed[journal.rollout].created // 60 * 60, (now - LATE_SEC) // 60 * 60
        if end <= begin:
            return []
        limit = settings.latency.limit_ms if settings.latency else None
        found = _converted(lambda: self._monitoring.counts(self.name, begin, end, limit))
        canary, stable = (found.get(each, {}) for each in (journal.rollout, journal.stable))
        return [Minute(each, canary.get(each), stable.get(each)) for each in sorted({*canary, *stable})]


def state_of(endpoint: Mapping[str, Any]) -> State:
    """Return the state of an endpoint in the form of the API."""
    models = [_deployed(each) for each in endpoint.get("deployedModels", ())]
    split = {str(key): int(percent) for key, percent in endpoint.get("trafficSplit", {}).items() if int(percent)}
    etag, labels = str(endpoint.get("etag", "")), dict(endpoint.get("labels", {}))
    return State(str(endpoint["name"]), etag, {each.id: each for each in models}, split, labels)


def _deployed(found: Mapping[str, Any]) -> Deployed:
    machines = found.get("dedicatedResources", {})
    return Deployed(
        id=str(found["id"]),
        model=str(found.get("model", "")).rpartition("/")[2].partition("@")[0],
        version=str(found.get("modelVersionId", "")),
        name=str(found.get("displayName", "")),
        created=_seconds(str(found.get("createTime", ""))),
        replicas=int(found.get("status", {}).get("availableReplicaCount", 0)),
        least=int(machines.get("requiredReplicaCount") or machines.get("minReplicaCount") or 1),
        definition={key: found[key] for key in _KEPT if key in found},
    )


def usd_per_hour(model: Deployed, endpoint: str) -> float | None:
    """Return the price of the machines that a model holds, or None if the catalog has no price.

    It is the price of Compute Engine. Vertex AI adds a fee of its own, which the catalog does not have.
    """
    resources = model.definition.get("dedicatedResources", {})
    spec, match = resources.get("machineSpec", {}), ENDPOINT.fullmatch(endpoint)
    machine = str(spec.get("machineType", ""))
    if machine.startswith("n1-"):
        names = {vertex: google for google, vertex in ACCELERATORS.items()}
        machine += f"+{names.get(spec.get('acceleratorType'), '')}x{spec.get('acceleratorCount', 1)}"
    market = "spot" if resources.get("spot") else "standard"
    try:
        price = gpu_catalog.price(machine, match["location"] if match else "", market)
    except LookupError:  # a machine without a GPU
        return None
    return round(price.usd_per_hour * max(model.replicas, model.least), 4) if price else None


def _machines(machine: Machine) -> dict[str, Any]:
    accelerator = (
        {"acceleratorType": machine.accelerator, "acceleratorCount": machine.accelerator_count}
        if machine.accelerator
        else {}
    )
    return {
        "machineSpec": {"machineType": machine.type, **accelerator},
        "minReplicaCount": machine.min_replicas,
        "maxReplicaCount": machine.max_replicas,
        **({"spot": True} if machine.spot else {}),
    }


def _seconds(time: str) -> int:
    """Return seconds since 1970 of a time in RFC 3339, whose fraction may have 9 digits."""
    found = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", time)
    return int(datetime.fromisoformat(found[0]).replace(tzinfo=UTC).timestamp()) if found else 0


class Monitoring(GoogleService):
    """The measurements of endpoints in Cloud Monitoring."""

    def __init__(self, address: str = "", retries: int = 3) -> None:
        super().__init__("monitoring", "v3", address, PLATFORM, retries)

    @cached_property
    def _series(self) -> Any:
        return self._service.projects().timeSeries()

    def counts(self, endpoint: str, begin: int, end: int, limit_ms: float | None) -> dict[str, dict[int, Counts]]:
        """Return the counts by deployed model and minute (minutes since 1970).

        With a limit, a minute without latencies is left out, because it cannot be judged. Raise ApiError.

        Args:
            endpoint: The name of the endpoint.
            begin: The first second, a multiple of 60 since 1970.
            end: The second after the last one, a multiple of 60.
            limit_ms: The time above which a request is slow, or None.
        """
        requests: dict[tuple[str, int], float] = {}
        errors: dict[tuple[str, int], float] = {}
        for model, labels, minute, value in self._points(endpoint, "response_count", "", begin, end):
            count = float(value.get("int64Value") or value.get("doubleValue") or 0)
            key = (model, minute)
            requests[key] = requests.get(key, 0) + count
            if labels.get("response_code", "").startswith("5"):
                errors[key] = errors.get(key, 0) + count
        slow: dict[tuple[str, int], float] = {}
        if limit_ms is not None:
            extra = 'metric.labels.latency_type="total"'
            for model, _, minute, value in self._points(endpoint, "prediction_latencies", extra, begin, end):
                slow[model, minute] = slow_requests(value.get("distributionValue", {}), limit_ms)
        found: dict[str, dict[int, Counts]] = {}
        for (model, minute), count in requests.items():
            key = (model, minute)
            if limit_ms is None or key in slow:
                late = None if limit_ms is None else min(count, slow[key])
                found.setdefault(model, {})[minute] = Counts(count, errors.get(key, 0), late)
        return found

    def _points(
        self, endpoint: str, metric: str, condition: str, begin: int, end: int
    ) -> Iterator[tuple[str, Mapping[str, str], int, Mapping[str, Any]]]:
        """Yield the deployed model, the labels, the minute and the value of each point."""
        match = ENDPOINT.fullmatch(endpoint)
        assert match  # noqa: S101 - the command checks the name
        terms = [
            f'metric.type="{_PREFIX}/{metric}"',
            'resource.type="aiplatform.googleapis.com/Endpoint"',
            f'resource.labels.endpoint_id="{match["id"]}"',
            f'resource.labels.location="{match["location"]}"',
            *([condition] if condition else []),
        ]
        grouped = ["metric.labels.deployed_model_id"]
        grouped += ["metric.labels.response_code"] if metric == "response_count" else []
        page: dict[str, str] = {}
        while True:
            arguments = {
                "name": f"projects/{match['project']}",
                "filter": " AND ".join(terms),
                "interval_startTime": _time(begin),
                "interval_endTime": _time(end),
                "aggregation_alignmentPeriod": "60s",
                "aggregation_perSeriesAligner": "ALIGN_DELTA",
                "aggregation_crossSeriesReducer": "REDUCE_SUM",
                "aggregation_groupByFields": grouped,
                **page,
            }
            answer = self._run(self._series.list(**arguments))
            if answer.get("executionErrors") or answer.get("unreachable"):
                raise ApiError("unreachable", "Cloud Monitoring returned a part of the data", 503)
            for series in answer.get("timeSeries", ()):
                labels = series.get("metric", {}).get("labels", {})
                for point in series.get("points", ()):
                    minute = _seconds(point["interval"]["endTime"]) // 60 - 1
                    yield labels.get("deployed_model_id", ""), labels, minute, point["value"]
            if not answer.get("nextPageToken"):
                return
            page = {"pageToken": answer["nextPageToken"]}


def slow_requests(distribution: Mapping[str, Any], limit_ms: float) -> float:
    """Return the requests in buckets above the limit. A limit within a bucket is raised to the bucket's upper bound."""
    counts = [float(each) for each in distribution.get("bucketCounts", ())]
    # Bucket i has the values from bounds[i - 1] to bounds[i]. The first bucket has those below bounds[0].
    bounds = bucket_bounds(distribution.get("bucketOptions", {}))
    first = next((at for at, bound in enumerate(bounds) if bound >= limit_ms), len(bounds))
    return math.fsum(counts[first + 1 :])


def bucket_bounds(options: Mapping[str, Any]) -> Sequence[float]:
    """Return the bounds of buckets (discovery document monitoring v3, BucketOptions)."""
    if explicit := options.get("explicitBuckets"):
        return [float(each) for each in explicit.get("bounds", ())]
    if linear := options.get("linearBuckets"):
        offset, width = float(linear.get("offset", 0)), float(linear["width"])
        return [offset + width * at for at in range(int(linear["numFiniteBuckets"]) + 1)]
    if exponential := options.get("exponentialBuckets"):
        scale, factor = float(exponential["scale"]), float(exponential["growthFactor"])
        return [scale * factor**at for at in range(int(exponential["numFiniteBuckets"]) + 1)]
    return []


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _converted(call: Callable[[], Result]) -> Result:
    """Return the result of a call, with the errors of the loop for those of the API."""
    try:
        return call()
    except ApiError as error:
        kind = ConflictError if is_conflict(error) else UnavailableError if error.not_yet else RejectedError
        raise kind(str(error) or error.reason) from None
