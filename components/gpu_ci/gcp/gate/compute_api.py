"""The calls of the Compute Engine API that the smoke gate and the runner manager need.

Every error is an ApiError. Its properties, such as `no_capacity` and `missing`, classify the error for the caller.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .credentials import CredentialsError, credentials

# Google's client retries failed requests (5xx, 429, broken connections) with growing pauses.
_RETRIES = 5
# The default of Google's client.
_TIMEOUT_SEC = 60.0

# Requests that the gate repeats anyway, such as the status, are not retried. Retries would use up the rate limit.
_NO_RETRIES = 0

_RATE_LIMITED = ("rateLimitExceeded", "userRateLimitExceeded")
# Reasons of temporary errors.
_NOT_YET = (*_RATE_LIMITED, "resourceNotReady", "unreachable", "connectionRefused")
_NO_CAPACITY = ("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")

# The warning of a complete but empty list.
_NO_RESULTS = "NO_RESULTS_ON_PAGE"


@dataclass(frozen=True)
class QuotaInfo:
    """The exhausted quota, as Google reports it: its id, its scope, and the granted limit."""

    id: str
    region: str = ""
    gpu_family: str = ""
    limit: float = 0.0


@dataclass
class ApiError(Exception):
    """An error of the API, with Google's reason and message."""

    reason: str
    message: str
    status: int = 0
    zones_available: tuple[str, ...] = field(default=())
    quota: QuotaInfo | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def no_capacity(self) -> bool:
        """True if the zone has no capacity for the machine now. Another zone may have some."""
        return self.reason in _NO_CAPACITY

    @property
    def over_quota(self) -> bool:
        """True if a quota of the project is exceeded. Another zone does not help, because zones share the quota."""
        return "QUOTA" in self.reason.upper()

    @property
    def missing(self) -> bool:
        """True if the resource of the call does not exist."""
        return self.status == 404

    @property
    def not_yet(self) -> bool:
        """True if the same request may succeed later, for example after a rate limit or an outage."""
        return self.status == 429 or self.status >= 500 or self.reason in _NOT_YET

    @property
    def rate_limited(self) -> bool:
        """True if the project has used up its requests of this minute. The request was not executed."""
        return self.reason in _RATE_LIMITED

    @property
    def connection_refused(self) -> bool:
        """True if nothing listens at the address of the service or proxy, because it restarts or has stopped."""
        return self.reason == "connectionRefused"

    @property
    def about_account(self) -> bool:
        """True if the error is about the machine's service account.

        For some time after its creation, Google may not know the account, or the caller's permission to use it.
        """
        names_account = re.search("service ?account", self.message, re.IGNORECASE)
        return self.reason == "SERVICE_ACCOUNT_ACCESS_DENIED" or (self.status < 500 and bool(names_account))

    @property
    def permission(self) -> str:
        """The IAM permission that the caller lacks, such as compute.instances.create; empty for other errors."""
        found = re.match(r"Required '([\w.]+)' permission for ", self.message)
        return found[1] if found else ""

    @property
    def constraint(self) -> str:
        """The violated organization policy, such as compute.requireShieldedVm; empty if there is none."""
        found = re.search(r"constraints/([\w.]*\w)", self.message)
        return found[1] if found else ""


class ComputeApi(Protocol):
    """The API calls that the gate needs."""

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        """Return the properties of a regional instance template."""

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> str:
        """Request a machine, and return the name of the operation."""

    def delete(self, project: str, zone: str, name: str) -> str:
        """Request the deletion of a machine, and return the name of the operation."""

    def done(self, project: str, zone: str, operation: str) -> bool:
        """Return True if an operation has ended. Raise ApiError if it failed."""

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        """Return the names of the machines with this label."""

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return these fields of all machines that match the filter."""

    def status(self, project: str, zone: str, name: str) -> str:
        """Return the status, such as RUNNING. Raise ApiError with `missing` if the machine does not exist."""

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the value that the machine published under `namespace/key`, or ""."""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        """Return the output of the first serial port after `start` bytes, and the `start` for the next call."""


class GoogleCompute:
    """The API through Google's Python client.

    Several threads may share one instance: a stack can have many gates, and a new client takes a third of a second of
    CPU. Each thread has its own connection, because connections of httplib2 are not thread-safe
    (googleapis/google-api-python-client docs/thread_safety.md).

    Raises:
        ApiError: No credentials were found.
    """

    def __init__(self, retries: int = _RETRIES, timeout_sec: float = _TIMEOUT_SEC) -> None:
        from googleapiclient.discovery import build

        # The variable contains the whole base URL including compute/v1/, as in Terraform's Google provider.
        endpoint = os.environ.get("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "")
        options = {"api_endpoint": f"{endpoint.rstrip('/')}/"} if endpoint else {}
        try:
            self._credentials = credentials(os.environ)
        except CredentialsError as error:
            raise ApiError("unauthenticated", str(error)) from None
        service = build(
            "compute",
            "v1",
            credentials=self._credentials,
            client_options=options,
            static_discovery=True,
            cache_discovery=False,
        )
        self._service = service
        self._instances = service.instances()
        self._operations = service.zoneOperations()
        self._templates = service.regionInstanceTemplates()
        self._threads = threading.local()
        self._retries = retries
        self._timeout_sec = timeout_sec

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        found = self._run(self._templates.get(project=project, region=region, instanceTemplate=name))
        properties: dict[str, Any] = found["properties"]
        return properties

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str, request_id: str = "") -> str:
        """Request a machine, and return the name of the operation. Google executes requests with the same id once."""
        identity = request_id or str(uuid.uuid4())
        call = self._instances.insert(
            project=project, zone=zone, body=body, sourceInstanceTemplate=template, requestId=identity
        )
        return str(self._run(call)["name"])

    def delete(self, project: str, zone: str, name: str) -> str:
        call = self._instances.delete(project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def start(self, project: str, zone: str, name: str, request_id: str) -> str:
        """Start a stopped machine, and return the operation's name. Google executes requests with the same id once."""
        call = self._instances.start(project=project, zone=zone, instance=name, requestId=request_id)
        return str(self._run(call)["name"])

    def stop(self, project: str, zone: str, name: str) -> str:
        """Stop a machine without deleting it, and return the name of the operation."""
        call = self._instances.stop(project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def done(self, project: str, zone: str, operation: str) -> bool:
        done, error = self.operation(project, zone, operation)
        if error:
            raise error
        return done

    def operation(self, project: str, zone: str, operation: str) -> tuple[bool, ApiError | None]:
        """Return True if the operation has ended, and its error, if any. Raise ApiError if the request itself fails."""
        found = self._run(self._operations.get(project=project, zone=zone, operation=operation))
        return found["status"] == "DONE", self._error_of(found)

    @staticmethod
    def _error_of(operation: Mapping[str, Any]) -> ApiError | None:
        """Return the error of an operation, if it has one."""
        errors = operation.get("error", {}).get("errors", [])
        return _operation_error(errors[0], int(operation.get("httpErrorStatusCode", 0))) if errors else None

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        names: list[str] = []
        call = self._instances.list(project=project, zone=zone, filter=f"labels.{label}={value}")
        while call is not None:
            page = self._run(call)
            names += [item["name"] for item in page.get("items", [])]
            call = self._instances.list_next(call, page)
        return names

    def status(self, project: str, zone: str, name: str) -> str:
        return str(self._run(self._instances.get(project=project, zone=zone, instance=name), _NO_RETRIES)["status"])

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        call = self._instances.getGuestAttributes(project=project, zone=zone, instance=name, queryPath=key)
        try:
            items = self._run(call, _NO_RETRIES).get("queryValue", {}).get("items", [])
        except ApiError as error:
            if error.missing:  # the machine has not published the value yet
                return ""
            raise
        return str(items[0]["value"]) if items else ""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        call = self._instances.getSerialPortOutput(project=project, zone=zone, instance=name, port=1, start=str(start))
        answer = self._run(call, _NO_RETRIES)
        return str(answer.get("contents", "")), int(answer.get("next", 0))

    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str:
        """Replace the metadata that has this fingerprint, and return the name of the operation."""
        body = {"fingerprint": fingerprint, "items": [{"key": key, "value": value} for key, value in items.items()]}
        call = self._instances.setMetadata(
            project=project, zone=zone, instance=name, body=body, requestId=str(uuid.uuid4())
        )
        return str(self._run(call)["name"])

    def instance(self, project: str, zone: str, name: str) -> dict[str, Any]:
        """Return a machine. Raise ApiError with `missing` if it does not exist."""
        return self._run(self._instances.get(project=project, zone=zone, instance=name))

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return these fields of all machines that match the filter. Raise ApiError if the answer lacks a zone."""
        rows: list[dict[str, Any]] = []
        answer_fields = (
            f"items/*/instances({','.join(fields)}),items/*/warning/code,warning/code,unreachables,nextPageToken"
        )
        call = self._instances.aggregatedList(project=project, filter=expression, maxResults=500, fields=answer_fields)
        while call is not None:
            page = self._run(call)
            self._require_all(page, "machines")
            rows += [row for scope in page.get("items", {}).values() for row in scope.get("instances", [])]
            call = self._instances.aggregatedList_next(call, page)
        return rows

    @staticmethod
    def _require_all(page: Mapping[str, Any], what: str) -> None:
        """Raise ApiError if a page of an aggregated list lacks a zone or region."""
        for name, scope in {"the project": page, **page.get("items", {})}.items():
            code = scope.get("warning", {}).get("code", _NO_RESULTS)
            if code != _NO_RESULTS:
                raise ApiError("unreachable", f"the list of {what} lacks some of {name}: {code}")
        if unreachable := page.get("unreachables"):
            raise ApiError("unreachable", f"the list of {what} lacks {', '.join(unreachable)}")

    def operations(self, project: str, zone: str, expression: str) -> Iterator[dict[str, Any]]:
        """Yield the zone's operations that match the filter, the newest first. Pages are requested as needed."""
        newest_first = "creationTimestamp desc"
        call = self._operations.list(project=project, zone=zone, filter=expression, orderBy=newest_first)
        while call is not None:
            page = self._run(call)
            yield from page.get("items", [])
            call = self._operations.list_next(call, page)

    def close(self) -> None:
        """Close the connection of this thread."""
        self._connection().close()

    def _run(self, call: Any, retries: int | None = None) -> dict[str, Any]:
        """Send a request, and return the answer.

        Retries are safe: Google executes calls with the same requestId once.
        """
        from google.auth.exceptions import GoogleAuthError
        from googleapiclient.errors import HttpError
        from httplib2 import HttpLib2Error  # type: ignore[import-untyped]

        try:
            attempts = self._retries if retries is None else retries
            answer: dict[str, Any] = call.execute(http=self._connection(), num_retries=attempts)
        except HttpError as error:
            raise _http_error(error.resp.status, error.content) from None
        except GoogleAuthError as error:
            raise ApiError("unauthenticated", str(error)) from None
        except (HttpLib2Error, OSError) as error:
            reason = "connectionRefused" if isinstance(error, ConnectionRefusedError) else "unreachable"
            raise ApiError(reason, f"cannot connect to the compute API: {error}") from None
        return answer

    def _connection(self) -> Any:
        """Return the connection of this thread."""
        from google_auth_httplib2 import AuthorizedHttp
        from googleapiclient.http import build_http

        if not hasattr(self._threads, "http"):
            connection = build_http()
            connection.timeout = self._timeout_sec
            self._threads.http = AuthorizedHttp(self._credentials, http=connection)
        return self._threads.http


def _http_error(status: int, content: bytes) -> ApiError:
    try:
        error = json.loads(content)["error"]
        first = (error.get("errors") or [{}])[0]
        return ApiError(str(first.get("reason", "")), str(error.get("message", "")), status)
    except (ValueError, KeyError, TypeError):
        return ApiError("", f"Google answered {status}: {content[:200].decode(errors='replace')}", status)


def _operation_error(error: dict[str, Any], status: int) -> ApiError:
    details = {kind: info for detail in error.get("errorDetails", []) for kind, info in detail.items()}
    available = details.get("errorInfo", {}).get("metadatas", {}).get("zonesAvailable", "")
    zones = tuple(zone for zone in available.split(",") if zone)
    quota = _quota_info(details["quotaInfo"]) if "quotaInfo" in details else None
    return ApiError(str(error.get("code", "")), str(error.get("message", "")), status, zones, quota)


def _quota_info(info: dict[str, Any]) -> QuotaInfo:
    dimensions = info.get("dimensions", {})
    return QuotaInfo(
        str(info.get("limitName", "")),
        str(dimensions.get("region", "")),
        str(dimensions.get("gpu_family", "")),
        float(info.get("limit", 0)),
    )
