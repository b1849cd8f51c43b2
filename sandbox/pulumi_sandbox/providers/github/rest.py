"""Common elements of GitHub's REST API: refusals, pages, callers and routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.github.world import API
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call

DOCUMENTATION = "https://docs.github.com/rest"
# docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api: 30 rows a page, at most 100.
ROWS_PER_PAGE, MOST_ROWS_PER_PAGE = 30, 100

# docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
NO_ACCESS = "Resource not accessible by integration"

Row = TypeVar("Row")


class Refused(Exception):  # noqa: N818 - it is an answer
    """GitHub refuses a request with this status and message."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}

    def answer(self) -> Answer:
        body = {"message": self.message, "documentation_url": DOCUMENTATION, "status": str(self.status)}
        plain = as_json(self.status, body)
        return Answer(plain.status, plain.body, plain.kind, self.headers)


@dataclass(frozen=True)
class Caller:
    """One token of an App's installation, with its permissions."""

    installation: str
    token: str = field(repr=False)
    permissions: Mapping[str, str]
    repositories: frozenset[int] | None
    """The numbers of the token's repositories; None for all repositories of the installation."""
    until: float
    """The time at which the token expires."""

    def may(self, permission: str, level: str) -> bool:
        return self.permissions.get(permission) in (level, "write")


@dataclass(frozen=True)
class Request:
    """One request of a caller."""

    call: Call
    caller: Caller
    repository: Repository | None = None
    """The repository in the path."""

    @property
    def base(self) -> str:
        return self.call.address or API

    @property
    def body(self) -> dict[str, Any]:
        return self.call.body if isinstance(self.call.body, dict) else {}

    def option(self, name: str) -> str:
        """Return a parameter of the query, or an empty string."""
        return self.call.query.get(name, [""])[-1]


class Route(NamedTuple):
    """One call of the API, and the permission that it needs."""

    method: str
    pattern: str
    permission: str
    """The required permission; empty if any token is sufficient."""
    level: str
    answer: Callable[..., Answer]

    @property
    def name(self) -> str:
        """The NAME in `world break refuse --on github:rest/NAME`."""
        return self.answer.__name__.strip("_")


def paged(request: Request, key: str, rows: Sequence[Row], to_document: Callable[[Row], Any], **fields: Any) -> Answer:
    """Return one page of rows with the Link header to the next one. `to_document` converts a row."""
    size = max(1, min(_number(request.option("per_page"), ROWS_PER_PAGE), MOST_ROWS_PER_PAGE))
    page, last = max(1, _number(request.option("page"), 1)), -(-len(rows) // size)
    query = {name: values[-1] for name, values in request.call.query.items()} | {"page": str(page + 1)}
    link = {"Link": f'<{request.base}{request.call.path}?{urlencode(query)}>; rel="next"'} if page < last else {}
    body = {"total_count": len(rows), key: [to_document(one) for one in rows[(page - 1) * size : page * size]]} | fields
    answer = as_json(200, body)
    return Answer(answer.status, answer.body, answer.kind, link)


def _number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default
