"""The sandbox's account of Jarvis Labs as an HTTP server, with faults. The vendor's SDK works with it (test_sdk.py)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from gpu_manager.suppliers.jarvislabs.api import REGIONS
from pulumi_sandbox.providers.jarvislabs import Account

TOKEN, ACCOUNT = "jl-planted-token", Account.user_id


class FakeJarvisLabs(Account):
    """The account. A test may change its fields at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str, str, Any]] = []
        """Region, method, path with its query, and body of each request."""
        self.free = {("H100", "IN2"): 2, ("H100", "IN1"): 0, ("L4", "IN2"): 4}
        self.pausing: list[int] = []
        """The machines whose pause does not end."""
        self.answers: dict[str, tuple[int, Any]] = {}
        """Status and content of the next answer for a path. A status of 0 cuts off the answer of a request that was
        carried out.
        """
        self.hidden: set[int] = set()
        """The machines that the list does not contain yet."""
        self.urls: dict[str, str] = {}

    def posts(self) -> list[tuple[str, str, str, Any]]:
        return [each for each in self.requests if each[1] == "POST"]

    def rows(self) -> list[dict[str, Any]]:
        return [row for row in super().rows() if row["machine_id"] not in self.hidden]

    def answer(self, zone: str, method: str, target: str, body: Any) -> tuple[int, Any]:
        planted = self.answers.pop(urlsplit(target).path.strip("/"), None)
        if planted and planted[0]:
            return planted
        status, value = super().answer(zone, method, target, body)
        for row in (self.machines[number] for number in self.pausing if number in self.machines):
            row["status"] = "Pausing" if row["status"] == "Paused" else row["status"]
        return (0, None) if planted else (status, value)


@contextmanager
def served() -> Iterator[FakeJarvisLabs]:
    """Serve an account. The first part of each path is the region whose address it is."""
    fake, lock = FakeJarvisLabs(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            zone, _, path = self.path.lstrip("/").partition("/")
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(content) if content else None
            with lock:
                fake.requests.append((zone, self.command, path, body))
                is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
                status, value = fake.answer(zone, self.command, path, body) if is_known else (401, {"detail": TOKEN})
            answer = value if isinstance(value, bytes) else json.dumps(value).encode()
            if status:
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                with suppress(ConnectionError):
                    self.wfile.write(answer)
            self.close_connection = True

        do_GET = do_POST = _do  # noqa: N815 - names of http.server

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    fake.urls = {zone: f"http://127.0.0.1:{server.server_port}/{zone}" for zone in REGIONS}
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()
