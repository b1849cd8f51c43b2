"""Google's own client against a server of this test: what is asked on the wire, and what its errors become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import google.auth
import pytest
from google.auth import compute_engine
from google.auth.credentials import AnonymousCredentials
from gpu_ci.gcp.gate.compute_api import ApiError, GoogleCompute, Operation, QuotaInfo

STOCKOUT = {
    "name": "o",
    "status": "DONE",
    "httpErrorStatusCode": 503,
    "error": {
        "errors": [
            {
                "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                "message": "The zone 'projects/p/zones/us-central1-a' does not have enough resources available.",
                "errorDetails": [
                    {
                        "errorInfo": {
                            "reason": "resource_availability",
                            "metadatas": {"zonesAvailable": "us-central1-b,us-central1-f", "vmType": "g2-standard-8"},
                        }
                    }
                ],
            }
        ]
    },
}


class Server(ThreadingHTTPServer):
    """Answers from a table, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.connections: set[int] = set()
        self.lost = 0
        """The number of answers that are lost. The request is executed anyway."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path, body))
        self.server.connections.add(self.client_address[1])
        if self.server.lost:
            self.server.lost -= 1
            self.close_connection = True
            return
        place = self.path.partition("?")[0].removeprefix("/compute/v1/projects/p/")
        status, answer = self.server.answers.get(
            f"{self.command} {place}", (404, _error(404, "notFound", "was not found"))
        )
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


def _error(status: int, reason: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"http://127.0.0.1:{found.server_port}/compute/v1/")
    monkeypatch.setattr(google.auth, "default", lambda scopes: (AnonymousCredentials(), None))  # type: ignore[no-untyped-call]
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


ZONE = "zones/us-central1-a"


def test_a_machine_is_made_from_the_template_with_what_differs(server: Server) -> None:
    # Google names the new machine by its id at once. A later machine of its name has another one.
    answer = {"name": "operation-1", "status": "PENDING", "targetId": "42", "user": "gate@p.iam.gserviceaccount.com"}
    server.answers[f"POST {ZONE}/instances"] = (200, answer)
    link = "projects/p/regions/us-central1/instanceTemplates/t-1"
    found = GoogleCompute().insert("p", "us-central1-a", {"name": "m"}, link)
    assert found == Operation("operation-1", target_id="42", user="gate@p.iam.gserviceaccount.com")
    ((method, path, body),) = server.asked
    assert (method, body) == ("POST", {"name": "m"})
    assert path.startswith("/compute/v1/projects/p/zones/us-central1-a/instances?")
    assert "sourceInstanceTemplate=projects%2Fp%2Fregions%2Fus-central1%2FinstanceTemplates%2Ft-1" in path


@pytest.mark.parametrize("method", ["insert", "delete", "stop"])
def test_a_request_whose_answer_is_lost_comes_again_under_its_own_id(
    server: Server, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.answers = {
        f"POST {ZONE}/instances": (200, {"name": "o"}),
        f"DELETE {ZONE}/instances/m": (200, {"name": "o"}),
        f"POST {ZONE}/instances/m/stop": (200, {"name": "o"}),
    }
    api = GoogleCompute()

    def begin() -> str:
        match method:
            case "insert":
                return api.insert("p", "us-central1-a", {"name": "m"}, "projects/p/regions/r/instanceTemplates/t").name
            case "delete":
                return api.delete("p", "us-central1-a", "m")
        return api.stop("p", "us-central1-a", "m")

    server.lost = 1
    assert begin() == "o"
    assert begin() == "o"
    ids = [parse_qs(urlsplit(path).query)["requestId"] for _, path, _ in server.asked]
    assert len(ids) == 3
    assert ids[0] == ids[1] != ids[2]
    assert UUID(ids[0][0]).version == 4


def test_a_request_has_the_id_that_its_caller_gives(server: Server) -> None:
    server.answers[f"POST {ZONE}/instances"] = (200, {"name": "o"})
    identity = "0b6a1f6e-3c1b-5b52-8e9a-6f1f6e7c8a10"
    GoogleCompute().insert("p", "us-central1-a", {"name": "m"}, "t", identity)
    assert parse_qs(urlsplit(server.asked[0][1]).query)["requestId"] == [identity]


def test_a_stockout_error_has_the_zones_that_google_suggests(server: Server) -> None:
    server.answers[f"GET {ZONE}/operations/o"] = (200, STOCKOUT)
    with pytest.raises(ApiError) as caught:
        GoogleCompute().done("p", "us-central1-a", "o")
    error = caught.value
    assert (error.no_capacity, error.missing, error.zones_available) == (
        True,
        False,
        ("us-central1-b", "us-central1-f"),
    )
    assert str(error) == "The zone 'projects/p/zones/us-central1-a' does not have enough resources available."


def test_a_quota_error_is_not_a_stockout_and_has_googles_quota(server: Server) -> None:
    name = "GPUS-PER-GPU-FAMILY-per-project-region"
    told = {"limitName": name, "dimensions": {"region": "us-central1", "gpu_family": "NVIDIA_H100"}, "limit": 4}
    error = {"code": "QUOTA_EXCEEDED", "message": "Quota exceeded.", "errorDetails": [{"quotaInfo": told}]}
    server.answers[f"GET {ZONE}/operations/o"] = (200, {"name": "o", "status": "DONE", "error": {"errors": [error]}})
    with pytest.raises(ApiError) as caught:
        GoogleCompute().done("p", "us-central1-a", "o")
    assert (caught.value.over_quota, caught.value.no_capacity) == (True, False)
    assert caught.value.quota == QuotaInfo(name, "us-central1", "NVIDIA_H100", 4)


SCOPES = {
    "zones/us-central1-a": {"instances": [{"name": "a", "id": "1"}]},
    "zones/us-central1-b": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "No results"}},
}


def test_machines_of_all_zones_are_read_over_all_pages_and_without_their_metadata(server: Server) -> None:
    class Pages(dict[str, Any]):
        """An answer for each page."""

        def get(self, key: str, default: Any = None) -> Any:
            assert key == "GET aggregated/instances"
            query = parse_qs(urlsplit(server.asked[-1][1]).query)
            if query.get("pageToken") == ["two"]:
                return 200, {"items": {"zones/us-east1-c": {"instances": [{"name": "b", "id": "2"}]}}}
            return 200, {"items": SCOPES, "nextPageToken": "two"}

    server.answers = Pages()
    found = GoogleCompute().instances_of_all_zones("p", "labels.gpu-ci-manager=staging", ("id", "name"))
    assert found == [{"name": "a", "id": "1"}, {"name": "b", "id": "2"}]
    assert len(server.asked) == 2
    query = parse_qs(urlsplit(server.asked[1][1]).query)
    assert query["filter"] == ["labels.gpu-ci-manager=staging"]
    assert query["fields"] == [
        "items/*/instances(id,name),items/*/warning/code,warning/code,unreachables,nextPageToken"
    ]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (
            {"items": {**SCOPES, "zones/us-east1-c": {"warning": {"code": "UNREACHABLE"}}}},
            "the list of machines lacks some of zones/us-east1-c: UNREACHABLE",
        ),
        ({"items": SCOPES, "warning": {"code": "PARTIAL_SUCCESS"}}, "lacks some of the project: PARTIAL_SUCCESS"),
        ({"items": SCOPES, "unreachables": ["zones/us-east1-c"]}, "the list of machines lacks zones/us-east1-c"),
    ],
)
def test_a_list_without_some_zone_is_an_error_and_no_shorter_list(
    server: Server, page: dict[str, Any], problem: str
) -> None:
    server.answers["GET aggregated/instances"] = (200, page)
    with pytest.raises(ApiError, match=problem) as caught:
        GoogleCompute().instances_of_all_zones("p", "labels.a=b", ("name",))
    assert caught.value.not_yet


@pytest.fixture
def on_google(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The credentials are those of a machine on Google Cloud, and the server is also its metadata server."""
    monkeypatch.setattr(google.auth, "default", lambda scopes: (compute_engine.Credentials(scopes=scopes), None))  # type: ignore[no-untyped-call]
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", f"127.0.0.1:{server.server_port}")
    account = "/computeMetadata/v1/instance/service-accounts/default"
    server.answers |= {
        f"GET {account}/": (200, {"email": "builds@p.iam.gserviceaccount.com", "scopes": []}),
        f"GET {account}/token": (200, {"access_token": "ya29.x", "expires_in": 3600}),
        "GET /computeMetadata/v1/universe/universe-domain": (404, {}),
        f"GET {ZONE}/instances/m": (200, {"status": "RUNNING", "id": "42"}),
    }
    return server


def test_the_account_of_a_machine_is_known_after_its_first_request(on_google: Server) -> None:
    api = GoogleCompute()
    assert api.account == ""
    assert api.status("p", "us-central1-a", "m") == ("RUNNING", "42")
    assert api.account == "builds@p.iam.gserviceaccount.com"


@pytest.mark.parametrize("lost", ["before the first call", "after the first call"])
def test_a_metadata_server_that_is_not_there_is_no_wrong_login(
    on_google: Server, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [GoogleCompute()] if lost == "after the first call" else []
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", "127.0.0.1:9")
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    with pytest.raises(ApiError, match="cannot get a token for the compute API") as raised:
        (found or [GoogleCompute()])[0].status("p", "us-central1-a", "m")
    assert (raised.value.reason, raised.value.not_yet) == ("unreachable", True)
