"""The part of Google's API that the manager uses, with the manager's errors for those of Google."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, Protocol

from gpu_ci.gcp.gate.compute_api import ApiError, GoogleCompute, Operation
from gpu_ci.gcp.gate.stopped import MANAGER_LABEL

from ...ports import Refused, Unavailable

Body = dict[str, Any]

# The next pass repeats a failed request anyway. One retry covers a connection that was closed in the meantime.
_RETRIES = 1
# The lease of a manager depends on this value (stores/bucket.py, CALL_SEC).
_TIMEOUT_SEC = 20.0
# Errors of an answer that is not Google's: a proxy may answer 200 with its own page, or cut off an answer.
_UNUSABLE = (KeyError, TypeError, ValueError, AttributeError, HTTPException)


class Api(Protocol):
    """The methods of Google's API that the manager needs."""

    @property
    def account(self) -> str: ...
    def template(self, project: str, region: str, name: str) -> Body: ...
    def insert(self, project: str, zone: str, body: Body, template: str, request_id: str = "") -> Operation: ...
    def delete(self, project: str, zone: str, name: str) -> str: ...
    def start(self, project: str, zone: str, name: str, request_id: str) -> str: ...
    def stop(self, project: str, zone: str, name: str) -> str: ...
    def operation(self, project: str, zone: str, operation: str) -> Operation: ...
    def operations(self, project: str, zone: str, expression: str) -> Iterator[Body]: ...
    def instance(self, project: str, zone: str, name: str) -> Body: ...
    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[Body]: ...
    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str: ...
    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str: ...
    def close(self) -> None: ...


class Connection:
    """Google's API. The client is created at the first request, so that missing credentials raise ApiError there."""

    def __init__(self, api: Api | None = None) -> None:
        self._api = api

    def __call__(self) -> Api:
        if self._api is None:
            self._api = GoogleCompute(_RETRIES, _TIMEOUT_SEC)
        return self._api

    def close(self) -> None:
        if self._api is not None:
            self._api.close()


def is_own(row: Body, manager: str) -> bool:
    """Return True if the manager's label is on the machine."""
    return bool(row.get("labels", {}).get(MANAGER_LABEL) == manager)


@contextmanager
def checked_answer(subject: str) -> Iterator[None]:
    try:
        yield
    except _UNUSABLE as error:
        raise Unavailable(f"{subject}: Google's answer cannot be used: {type(error).__name__}: {error}") from None


@contextmanager
def converted_errors(subject: str) -> Iterator[None]:
    try:
        with checked_answer(subject):
            yield
    except ApiError as error:
        raise failure(subject, error) from None


def failure(subject: str, error: ApiError) -> Unavailable | Refused:
    return (Unavailable if is_temporary(error) else Refused)(f"{subject}: {error}")


def machine_error(subject: str, error: ApiError) -> Unavailable | Refused:
    """Return the error of a request about one machine. It is Unavailable if the machine is gone, because requests about
    other machines may succeed.
    """
    return Unavailable(f"{subject}: the machine is gone") if error.missing else failure(subject, error)


def is_temporary(error: ApiError) -> bool:
    """Return True if the same request may succeed later, also after an error of this computer's credentials."""
    return error.not_yet or error.reason == "unauthenticated"


def last(link: Any) -> str:
    """Return the name at the end of a link."""
    return str(link).rstrip("/").rpartition("/")[-1]
