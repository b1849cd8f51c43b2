"""The sandbox accepts no parameters of Compute Engine's API that no known client sends together."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints
from urllib.parse import parse_qs, urlsplit

import httplib2  # type: ignore[import-untyped]
import pytest
from google.auth.credentials import AnonymousCredentials
from gpu_ci.gcp.gate import google_service
from gpu_ci.gcp.host_image.api import GoogleImages
from pulumi_sandbox.providers.gcp.compute.server import API
from pulumi_sandbox.providers.gcp.compute.server import unknown_parameters as refusals

from tests.sandbox.providers.gcp.api import Api

SORTED = "Specifying both a list filter and sort order is not currently supported."
BOTH = {"filter": "name=a", "orderBy": "creationTimestamp desc"}
ARGUMENTS: dict[Any, Any] = {str: "x", int: 0, dict[str, Any]: {}, Mapping[str, str]: {}, Sequence[str]: ("id",)}


@pytest.mark.parametrize(
    "path",
    [
        "zones/us-central1-a/instances",
        "zones/us-central1-a/operations",
        "aggregated/instances",
        "aggregated/instanceTemplates",
        "global/images",
        "regions/us-central1/routers",
    ],
)
def test_no_list_is_filtered_and_sorted(api: Api, path: str) -> None:
    status, body = api.call("GET", path, **BOTH)
    assert (status, body["error"]["errors"][0]["reason"], body["error"]["message"]) == (
        400,
        "invalid",
        f"Invalid value for field 'orderBy': 'creationTimestamp desc'. {SORTED}",
    )


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "zones/us-central1-a/instances", {"sourceInstanceTemplate": "t", "sourceMachineImage": "m"}),
        ("GET", "zones/us-central1-a/instances/a/getGuestAttributes", {"queryPath": "a/", "variableKey": "a/b"}),
        ("GET", "zones/us-central1-a/instances/a", {"filter": "name=a"}),
    ],
)
def test_parameters_that_no_client_sends_together_are_refused(
    api: Api, method: str, path: str, query: dict[str, str]
) -> None:
    status, body = api.call(method, path, {} if method == "POST" else None, **query)
    assert (status, body["error"]["errors"][0]["reason"]) == (400, "sandbox")


class Answers:
    """A connection on which each request succeeds, and a list has two pages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def request(self, url: str, method: str = "GET", **_: Any) -> tuple[httplib2.Response, bytes]:
        self.sent.append((method, url))
        token = b"" if "pageToken" in url else b'"nextPageToken": "two", '
        answer = b'{%s"name": "o", "id": "1", "status": "DONE", "properties": {}}' % token
        return httplib2.Response({"status": "200"}), answer


def test_each_request_of_gate_manager_bridge_and_host_image_is_one_of_a_known_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = Answers()
    monkeypatch.setattr(google_service, "credentials", lambda *_: AnonymousCredentials())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(google_service.GoogleService, "_connection", lambda _: connection)
    api = GoogleImages()
    calls = {
        name: call
        for name, call in inspect.getmembers(api, inspect.ismethod)
        if not name.startswith("_") and name != "close"
    }
    for call in calls.values():
        hints = get_type_hints(call)
        answer = call(*(ARGUMENTS[hints[name]] for name in inspect.signature(call).parameters))
        list(answer) if inspect.isgenerator(answer) else None
    assert len(connection.sent) > len(calls)
    assert any("pageToken" in uri for _, uri in connection.sent)
    for method, uri in connection.sent:
        url = urlsplit(uri)
        path = API.fullmatch(url.path)
        assert path is not None, uri
        assert [str(each) for each in refusals(method, path["rest"] or "", parse_qs(url.query))] == []
