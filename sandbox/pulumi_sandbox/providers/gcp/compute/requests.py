"""A request to the Compute Engine API, and the answers of list methods."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import errors
from pulumi_sandbox.providers.gcp.names import self_link
from pulumi_sandbox.providers.gcp.permissions import Needs

Json = dict[str, Any]

MAX_RESULTS = 500
CONDITION = re.compile(r'\(?\s*([\w.-]+(?:\.[\w-]+)*)\s*(=|!=|eq|ne)\s*"?([^")\s]*)"?\s*\)?')


@dataclass(frozen=True)
class Request:
    """A request to the API: the project, the query and the JSON body."""

    project: str
    query: dict[str, list[str]]
    body: Json
    permit: Callable[[Needs], None] = lambda _: None
    """Raises GoogleError if the account of the request lacks a permission."""

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[-1]

    def listed(self, kind: str, place: str, rows: list[Json]) -> Json:
        """Return the answer of a list method: the page of the rows that match the filter."""
        page, token = self.page_of(rows)
        return self.list_response(kind, place, page, token)

    def list_response(self, kind: str, place: str, rows: Any, token: str = "") -> Json:
        path = f"projects/{self.project}/{place}"
        answer = {"kind": f"compute#{kind}", "id": path, "items": rows, "selfLink": self_link(path)}
        return answer | ({"nextPageToken": token} if token else {})

    def page_of(self, rows: list[Json]) -> tuple[list[Json], str]:
        """Return the requested page and the token of the next page; the last page has an empty token."""
        rows = apply_filter(rows, self.one("filter"))
        max_results, token = self.one("maxResults", str(MAX_RESULTS)), self.one("pageToken")
        if not max_results.isdecimal() or int(max_results) > MAX_RESULTS:
            raise errors.invalid("maxResults", max_results, f"Must be an integer from 0 to {MAX_RESULTS}.")
        try:
            start = int(base64.urlsafe_b64decode(token)) if token else 0
        except ValueError:
            raise errors.invalid("pageToken", token, "The page token is invalid.") from None
        end = start + (int(max_results) or MAX_RESULTS)
        return rows[start:end], base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(rows) else ""


def apply_filter(rows: list[Json], expression: str) -> list[Json]:
    """Filter rows by the API's filter language; only `=`, `!=` and AND are supported."""
    if not expression.strip():
        return rows
    conditions = []
    for term in re.split(r"\s+AND\s+|(?<=\))\s*(?=\()", expression.strip()):
        match = CONDITION.fullmatch(term.strip())
        if match is None:
            raise errors.invalid(
                "filter", expression, "Invalid list filter expression; the sandbox supports = and != joined by AND."
            )
        conditions.append((match[1], match[2] in ("=", "eq"), match[3]))
    return [row for row in rows if all((text(row, field) == value) is equal for field, equal, value in conditions)]


def text(row: Json, field: str) -> str:
    value: Any = row
    for key in field.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return "" if value is None else str(value)
