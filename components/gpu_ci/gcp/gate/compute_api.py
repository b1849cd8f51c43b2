"""The calls of the Compute Engine API that the smoke gate and the runner manager need."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from .google_service import RETRIES, TIMEOUT_SEC, GoogleService
from .google_service import ApiError as ApiError
from .google_service import QuotaInfo as QuotaInfo

# Requests that the gate repeats anyway, such as the status, are not retried. Retries would use up the rate limit.
_NO_RETRIES = 0

OFF = ("STOPPED", "SUSPENDED", "TERMINATED")
"""The states of a machine that is off (discovery document compute v1, Instance.status)."""
# Our own state of a machine that does not exist.
GONE = "DELETED"
OFF_OR_GONE = (*OFF, GONE)

# The warning of a complete but empty list.
_NO_RESULTS = "NO_RESULTS_ON_PAGE"


class Operation(NamedTuple):
    """An operation of the API."""

    name: str
    done: bool = False
    error: ApiError | None = None
    target_id: str = ""
    """Google's id of the machine. A later machine of the same name has another id."""
    user: str = ""
    """The account that requested the operation, which Google writes."""


class ComputeApi(Protocol):
    """The API calls that the gate needs."""

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        """Return the properties of a regional instance template."""

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> Operation:
        """Request a machine."""

    def delete(self, project: str, zone: str, name: str) -> str:
        """Request the deletion of a machine, and return the name of the operation."""

    def done(self, project: str, zone: str, operation: str) -> bool:
        """Return True if an operation has ended. Raise ApiError if it failed."""

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        """Return the names of the machines with this label."""

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return these fields of all machines that match the filter."""

    def status(self, project: str, zone: str, name: str) -> tuple[str, str]:
        """Return the status, such as RUNNING, and the id. Raise ApiError with `missing` if no machine has the name."""

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the value that the machine published under `namespace/key`, or ""."""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        """Return the output of the first serial port after `start` bytes, and the `start` for the next call."""


def state_of(api: ComputeApi, machine: tuple[str, str, str], number: str) -> str:
    """Return the state of the machine (project, zone, name) with this id.

    It is GONE if no machine has the name, or another one: others may delete a machine and create one of the same name.
    """
    try:
        state, found = api.status(*machine)
    except ApiError as error:
        if error.missing:
            return GONE
        raise
    return state if found == number else GONE


class GoogleCompute(GoogleService):
    """The API through Google's Python client."""

    def __init__(self, retries: int = RETRIES, timeout_sec: float = TIMEOUT_SEC) -> None:
        # The variable contains the whole base URL including compute/v1/, as in Terraform's Google provider.
        endpoint = os.environ.get("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "")
        super().__init__("compute", "v1", endpoint, retries=retries, timeout_sec=timeout_sec)
        self._instances = self._service.instances()
        self._operations = self._service.zoneOperations()
        self._templates = self._service.regionInstanceTemplates()

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        found = self._run(self._templates.get(project=project, region=region, instanceTemplate=name))
        properties: dict[str, Any] = found["properties"]
        return properties

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str, request_id: str = "") -> Operation:
        """Request a machine. Google executes requests with the same id once."""
        identity = request_id or str(uuid.uuid4())
        call = self._instances.insert(
            project=project, zone=zone, body=body, sourceInstanceTemplate=template, requestId=identity
        )
        return self._operation(self._run(call))

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
        found = self.operation(project, zone, operation)
        if found.error:
            raise found.error
        return found.done

    def operation(self, project: str, zone: str, operation: str) -> Operation:
        """Return an operation. Raise ApiError if the request itself fails."""
        return self._operation(self._run(self._operations.get(project=project, zone=zone, operation=operation)))

    def _operation(self, found: Mapping[str, Any]) -> Operation:
        return Operation(
            str(found["name"]),
            found.get("status") == "DONE",
            self._error_of(found),
            str(found.get("targetId", "")),
            str(found.get("user", "")),
        )

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

    def status(self, project: str, zone: str, name: str) -> tuple[str, str]:
        found = self._run(self._instances.get(project=project, zone=zone, instance=name), _NO_RETRIES)
        return str(found["status"]), str(found["id"])

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
        found: dict[str, Any] = self._run(self._instances.get(project=project, zone=zone, instance=name))
        return found

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
        """Yield the zone's operations that match the filter, in any order. Google sorts no list that it filters."""
        call = self._operations.list(project=project, zone=zone, filter=expression, maxResults=500)
        while call is not None:
            page = self._run(call)
            yield from page.get("items", [])
            call = self._operations.list_next(call, page)


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
