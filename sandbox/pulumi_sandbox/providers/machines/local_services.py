"""Services that machines of the sandbox reach over HTTP in the place of a vendor's: one server, a path for each."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.machines.metadata import Answer, LocalServer, send

PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
NAMES = ("secretmanager", "logging", "github")
"""What a guest's environment in sandbox.yaml may name as `${…}`."""
LARGEST_BODY = 10 * 1024 * 1024


class Call(NamedTuple):
    """One request, without the part of its path that says for which service it is."""

    method: str
    path: str
    query: dict[str, list[str]]
    authorization: str
    body: Any
    """The JSON value; None where there was no body."""


Service = Callable[[Call], Answer]


class LocalServices:
    """Serves from the first time that somebody asks for an address until it is closed."""

    def __init__(self, services: Mapping[str, Service]) -> None:
        self._services = services
        self._server: LocalServer | None = None
        self._lock = threading.Lock()

    def filled(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables with addresses in the place of `${name}`; nothing is served where there are none."""
        return {name: PLACEHOLDER.sub(lambda found: self._url(found[1]), text) for name, text in environment.items()}

    def _url(self, name: str) -> str:
        with self._lock:
            if self._server is None:
                self._server = LocalServer(("127.0.0.1", 0), _handler(self._services))
                threading.Thread(target=self._server.serve_forever, args=(0.1,), name="services", daemon=True).start()
            return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def close(self) -> None:
        with self._lock:
            if self._server:
                self._server.shutdown()
                self._server.server_close()
                self._server = None


def as_json(status: int, body: Any) -> Answer:
    """An answer with a JSON value."""
    return Answer(status, json.dumps(body), "application/json; charset=utf-8", {})


def _handler(services: Mapping[str, Service]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it
            """Standard error belongs to the engine."""

        def handle_any(self) -> None:
            url = urlsplit(self.path)
            _, name, path = [*url.path.split("/", 2), "", ""][:3]
            length = int(self.headers.get("Content-Length") or 0)
            if length > LARGEST_BODY or name not in services:
                self.close_connection = True
                send(self, as_json(413 if length > LARGEST_BODY else 404, {"message": "Not Found"}))
                return
            text = self.rfile.read(length)
            try:
                body = json.loads(text) if text else None
            except ValueError:
                send(self, as_json(400, {"message": "Problems parsing JSON"}))
                return
            authorization = self.headers.get("Authorization", "")
            call = Call(self.command, f"/{unquote(path)}", parse_qs(url.query), authorization, body)
            try:
                answer = services[name](call)
            except Exception as error:  # a server answers 500, and goes on
                answer = as_json(500, {"message": f"the sandbox's {name} failed: {error!r}"})
            send(self, answer)

        def do_GET(self) -> None:
            self.handle_any()

        def do_POST(self) -> None:
            self.handle_any()

        def do_DELETE(self) -> None:
            self.handle_any()

    return Handler
