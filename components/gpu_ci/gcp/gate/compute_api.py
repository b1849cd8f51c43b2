"""The few calls to Google's compute API that the gate makes, in plain values and with errors it can tell apart."""

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

# Google's own client repeats what failed on the way (5xx, 429, broken connections) with growing pauses.
_RETRIES = 5
# That client's own.
_TIMEOUT_SEC = 60.0

# Of what is asked again soon anyway: requests beyond a limit only keep the limit reached.
_NO_RETRIES = 0

_RATE_LIMITED = ("rateLimitExceeded", "userRateLimitExceeded")
# Reasons of errors that are over after a while.
_NOT_YET = (*_RATE_LIMITED, "resourceNotReady", "unreachable", "connectionRefused")
_NO_CAPACITY = ("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")

# Of a list that is whole and has nothing.
_NO_RESULTS = "NO_RESULTS_ON_PAGE"


@dataclass(frozen=True)
class QuotaInfo:
    """Which quota is used up, in Google's words: its id, where it counts, and how much was granted."""

    id: str
    region: str = ""
    gpu_family: str = ""
    limit: float = 0.0


@dataclass
class ApiError(Exception):
    """Google refused: its reason, and its own sentence."""

    reason: str
    message: str
    status: int = 0
    zones_available: tuple[str, ...] = field(default=())
    quota: QuotaInfo | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def no_capacity(self) -> bool:
        """The zone has no such machine to give right now; another zone may."""
        return self.reason in _NO_CAPACITY

    @property
    def over_quota(self) -> bool:
        """The project may not have that much; every zone of the region draws on the same quota."""
        return "QUOTA" in self.reason.upper()

    @property
    def missing(self) -> bool:
        """What the call was about is not there."""
        return self.status == 404

    @property
    def not_yet(self) -> bool:
        """The same request may get an answer later: of a rate limit, a VM that stops, a service that is down."""
        return self.status == 429 or self.status >= 500 or self.reason in _NOT_YET

    @property
    def rate_limited(self) -> bool:
        """The project has used up its requests of this minute, and the request was not carried out."""
        return self.reason in _RATE_LIMITED

    @property
    def connection_refused(self) -> bool:
        """Nothing listens where the service or the proxy is: a proxy that starts again, or one that has died."""
        return self.reason == "connectionRefused"

    @property
    def about_account(self) -> bool:
        """Google does not know the machine's service account, or not yet that the caller may use it."""
        named = re.search("service ?account", self.message, re.IGNORECASE)
        return self.reason == "SERVICE_ACCOUNT_ACCESS_DENIED" or (self.status < 500 and bool(named))

    @property
    def constraint(self) -> str:
        """The organization policy that forbids it, such as compute.requireShieldedVm; empty where it is none."""
        found = re.search(r"constraints/([\w.]*\w)", self.message)
        return found[1] if found else ""


class ComputeApi(Protocol):
    """What the gate needs of Google."""

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        """The properties of a regional instance template."""

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> str:
        """Ask for a machine; the name of the operation."""

    def delete(self, project: str, zone: str, name: str) -> str:
        """Ask for its deletion; the name of the operation."""

    def done(self, project: str, zone: str, operation: str) -> bool:
        """Whether an operation has ended; ApiError if it failed."""

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        """Names of the machines with this label."""

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """These fields of all machines that match the filter."""

    def status(self, project: str, zone: str, name: str) -> str:
        """RUNNING, TERMINATED and so on; ApiError with `missing` when there is none."""

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """What the machine published under `namespace/key`; empty while it has not."""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        """What it wrote to its first serial port from this byte on, and the byte to go on from."""


class GoogleCompute:
    """The API over Google's own client, whose description of it comes with the package: nothing is looked up online.

    Threads may share one, as a stack has many gates: credentials are looked for and methods are made of the description
    once (a third of a second of CPU), while each thread has a connection of its own, because httplib2's is for one
    (googleapis/google-api-python-client docs/thread_safety.md). ApiError where there are no credentials.
    """

    def __init__(self, retries: int = _RETRIES, timeout_sec: float = _TIMEOUT_SEC) -> None:
        from googleapiclient.discovery import build

        # The variable's value is the whole base, compute/v1/ included, as Terraform's Google provider defines it.
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
        """Ask for a machine; the name of the operation. Requests with one id are carried out once."""
        identity = request_id or str(uuid.uuid4())
        call = self._instances.insert(
            project=project, zone=zone, body=body, sourceInstanceTemplate=template, requestId=identity
        )
        return str(self._run(call)["name"])

    def delete(self, project: str, zone: str, name: str) -> str:
        call = self._instances.delete(project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def start(self, project: str, zone: str, name: str, request_id: str) -> str:
        """Ask for a machine that was stopped; the name of the operation. Requests with one id are carried out once."""
        call = self._instances.start(project=project, zone=zone, instance=name, requestId=request_id)
        return str(self._run(call)["name"])

    def stop(self, project: str, zone: str, name: str) -> str:
        """Ask that a machine is switched off and kept; the name of the operation."""
        call = self._instances.stop(project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def done(self, project: str, zone: str, operation: str) -> bool:
        done, error = self.operation(project, zone, operation)
        if error:
            raise error
        return done

    def operation(self, project: str, zone: str, operation: str) -> tuple[bool, ApiError | None]:
        """Whether it has ended, and its error; ApiError where it could not be asked for."""
        found = self._run(self._operations.get(project=project, zone=zone, operation=operation))
        errors = found.get("error", {}).get("errors", [])
        status = int(found.get("httpErrorStatusCode", 0))
        return found["status"] == "DONE", _operation_error(errors[0], status) if errors else None

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
            if error.missing:  # also Google's answer while nothing was published
                return ""
            raise
        return str(items[0]["value"]) if items else ""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        call = self._instances.getSerialPortOutput(project=project, zone=zone, instance=name, port=1, start=str(start))
        answer = self._run(call, _NO_RETRIES)
        return str(answer.get("contents", "")), int(answer.get("next", 0))

    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str:
        """Ask for other metadata in place of all that has this fingerprint; the name of the operation."""
        body = {"fingerprint": fingerprint, "items": [{"key": key, "value": value} for key, value in items.items()]}
        call = self._instances.setMetadata(
            project=project, zone=zone, instance=name, body=body, requestId=str(uuid.uuid4())
        )
        return str(self._run(call)["name"])

    def instance(self, project: str, zone: str, name: str) -> dict[str, Any]:
        """A machine; ApiError with `missing` when there is none."""
        return self._run(self._instances.get(project=project, zone=zone, instance=name))

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """These fields of all machines that match the filter. ApiError where a zone is missing from the answer."""
        rows: list[dict[str, Any]] = []
        shown = f"items/*/instances({','.join(fields)}),items/*/warning/code,warning/code,unreachables,nextPageToken"
        call = self._instances.aggregatedList(project=project, filter=expression, maxResults=500, fields=shown)
        while call is not None:
            page = self._run(call)
            scopes = page.get("items", {})
            for where, scope in {"the project": page, **scopes}.items():
                code = scope.get("warning", {}).get("code", _NO_RESULTS)
                if code != _NO_RESULTS:
                    raise ApiError("unreachable", f"the list of machines lacks some of {where}: {code}")
            if away := page.get("unreachables"):
                raise ApiError("unreachable", f"the list of machines lacks {', '.join(away)}")
            rows += [row for scope in scopes.values() for row in scope.get("instances", [])]
            call = self._instances.aggregatedList_next(call, page)
        return rows

    def operations(self, project: str, zone: str, expression: str) -> Iterator[dict[str, Any]]:
        """The zone's operations that match the filter, the newest first. Further pages are asked for when needed."""
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
        """Ask, and ask again where the answer is lost. Google carries out calls with one requestId once."""
        from google.auth.exceptions import GoogleAuthError
        from googleapiclient.errors import HttpError
        from httplib2 import HttpLib2Error  # type: ignore[import-untyped]

        try:
            most = self._retries if retries is None else retries
            answer: dict[str, Any] = call.execute(http=self._connection(), num_retries=most)
        except HttpError as error:
            raise _http_error(error.resp.status, error.content) from None
        except GoogleAuthError as error:
            raise ApiError("unauthenticated", str(error)) from None
        except (HttpLib2Error, OSError) as error:
            reason = "connectionRefused" if isinstance(error, ConnectionRefusedError) else "unreachable"
            raise ApiError(reason, f"the compute API could not be reached: {error}") from None
        return answer

    def _connection(self) -> Any:
        """This thread's."""
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
    where = info.get("dimensions", {})
    return QuotaInfo(
        str(info.get("limitName", "")),
        str(where.get("region", "")),
        str(where.get("gpu_family", "")),
        float(info.get("limit", 0)),
    )
