"""What the emulated methods of Vertex AI share: the time, the answers and the errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers.gcp.errors import GoogleError

LABEL = re.compile(r"[a-z0-9_-]{0,63}")
Query = dict[str, list[str]]


class VertexError(GoogleError):
    """An error of the API. `reason` is the name of a google.rpc.Code, such as FAILED_PRECONDITION."""

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.status, "message": self.message, "status": self.reason}}


class Service:
    """Methods of the API.

    Attributes:
        now: The time in seconds since 1970, which `sleep` advances.
    """

    def __init__(self, now: float) -> None:
        self.now = now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def settle(self) -> None:
        """Do what is due."""
        raise NotImplementedError

    def route(self, method: str, path: str, query: Query, body: Any) -> Any:
        """Return the answer to a request. Raise VertexError as Google refuses it."""
        raise NotImplementedError

    def answer(self, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
        """Return the status and the body of the answer to a request."""
        self.settle()
        try:
            return 200, self.route(method, path, query, body)
        except VertexError as error:
            return error.status, error.body()

    @staticmethod
    def time(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    @staticmethod
    def seconds(time: str) -> int:
        return int(datetime.fromisoformat(time).timestamp())


def check_labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not (LABEL.fullmatch(key) and LABEL.fullmatch(value)) or not key[:1].isalpha():
            raise VertexError(400, "INVALID_ARGUMENT", f"the label {key}={value} is invalid")
