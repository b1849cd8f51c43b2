"""A fake Google: metadata server, Secret Manager and Cloud Logging in one server, with planned faults."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = "/computeMetadata/v1/"
GUEST_ATTRIBUTES = "instance/guest-attributes/"
TOKEN = "ya29.the-machines-own"


@dataclass
class Fault:
    """A fault of the next `times` requests whose path contains `path`."""

    path: str
    times: int = 1
    status: int = 0
    """The status of the answer."""
    body: bytes = b""
    cut: bool = False
    """True if the answer is shorter than its Content-Length."""
    hang: bool = False
    """True if the server sends nothing until it closes."""


@dataclass
class FakeGoogle:
    """The services of one machine. `attributes` are its metadata, and `published` its guest attributes in order."""

    attributes: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """Values below instance/ or project/. A value of None answers 404."""
    secrets: dict[str, bytes] = field(default_factory=dict)
    checksum: str | None = None
    published: list[tuple[str, str]] = field(default_factory=list)
    logged: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    etag: str = "e1"
    flavor: str = "Google"
    """The value of the header Metadata-Flavor."""
    closing: threading.Event = field(default_factory=threading.Event)
    address: str = ""
    queries: list[float] = field(default_factory=list)
    """The times of reads and writes of guest attributes within Google's limits."""
    dropped: list[str] = field(default_factory=list)
    """Guest attributes whose write was above the limits and was dropped."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.values = {
            "instance/name": "l4-x7k2",
            "instance/id": "42",
            "instance/zone": "projects/1/zones/us-central1-a",
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
            "project/project-id": "example-ci",
            "instance/service-accounts/default/email": "gpu@example-ci.iam.gserviceaccount.com",
            "instance/service-accounts/default/token": json.dumps({"access_token": TOKEN}),
            **self.values,
        }

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables with the addresses of these services."""
        url = f"http://{self.address}"
        return {
            "GCE_METADATA_HOST": self.address,
            "GPU_AGENT_SECRETMANAGER_URL": url,
            "GPU_AGENT_LOGGING_URL": url,
        }

    def last(self, key: str) -> Any:
        """Return the last value of the guest attribute as JSON."""
        return json.loads([value for name, value in self.published if name == key][-1])

    def keys(self) -> list[str]:
        """Return the machine's public keys, each once."""
        return list(dict.fromkeys(value for name, value in self.published if name == "gpu-agent/key"))

    def written(self) -> list[str]:
        """Return the names of the written guest attributes, in order."""
        return [name for name, _ in self.published]

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        """Return the answer of Google."""
        if path.startswith(ROOT):
            if headers.get("Metadata-Flavor") != "Google":
                return 403, b"missing Metadata-Flavor:Google header"
            return self._metadata(method, path.removeprefix(ROOT), body)
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, json.dumps({"error": {"message": "Request had invalid authentication credentials."}}).encode()
        if path == "/v2/entries:write":
            self.logged.append(json.loads(body))
            return 200, b"{}"
        name = path.removeprefix("/v1/").removesuffix("/versions/latest:access")
        if name not in self.secrets:
            return 404, json.dumps({"error": {"message": f"Secret [{name}] not found."}}).encode()
        payload = {"data": base64.b64encode(self.secrets[name]).decode()}
        if self.checksum is not None:
            payload["dataCrc32c"] = self.checksum
        return 200, json.dumps({"name": path, "payload": payload}).encode()

    def _metadata(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path.startswith(GUEST_ATTRIBUTES):
            return self._guest_attribute(method, path.removeprefix(GUEST_ATTRIBUTES), body.decode())
        key = path.removeprefix("instance/attributes/")
        value = self.attributes.get(key) if key != path else self.values.get(path)
        return (404, b"Not Found") if value is None else (200, value.encode())

    def _guest_attribute(self, method: str, name: str, value: str) -> tuple[int, bytes]:
        """Allow at most 10 queries a minute and 3 a second. Above that a write is answered and dropped.

        docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes
        """
        now = self.clock()
        over = any(sum(now - at < seconds for at in self.queries) >= most for most, seconds in ((10, 60), (3, 1)))
        if not over:
            self.queries.append(now)
        if method == "PUT":
            if over:
                self.dropped.append(name)
            else:
                self.published.append((name, value))
            return 200, b""
        if over:
            return 429, b"Too Many Requests"
        found = [known for key, known in self.published if key == name]
        return (200, found[-1].encode()) if found else (404, b"Not Found")


class _Handler(BaseHTTPRequestHandler):
    google: FakeGoogle

    def do_GET(self) -> None:
        google, url = self.google, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        google.asked.append(f"{self.command} {self.path}")
        fault = next((each for each in google.faults if each.times and each.path in self.path), None)
        if fault:
            fault.times -= 1
        if fault and fault.hang:
            google.closing.wait()
            return
        status, content = (
            (fault.status, fault.body)
            if fault and fault.status
            else google.answer(self.command, url.path, self.headers, body)
        )
        if "wait_for_change" in url.query and content == b"FALSE":
            self._hold(url.path, float(parse_qs(url.query)["timeout_sec"][0]))
            content = google.values["instance/preempted"].encode()
        self.send_response(status)
        self.send_header("ETag", google.etag)
        if url.path.startswith(ROOT):
            self.send_header("Metadata-Flavor", google.flavor)
        self.send_header("Content-Length", str(len(content) + (10 if fault and fault.cut else 0)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_POST = do_GET  # noqa: N815 - the base class looks for these names

    def _hold(self, path: str, seconds: float) -> None:
        """Hold the answer back until the value changes, as the metadata server does."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.google.values["instance/preempted"] == "FALSE":
            if self.google.closing.wait(0.02):
                return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a client that has closed its connection, which many tests cause."""


@contextmanager
def serving(google: FakeGoogle) -> Iterator[FakeGoogle]:
    """Serve it on this computer until the end of the block."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"google": google}))
    google.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield google
    finally:
        google.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
