"""A local HTTP server for the services that the sandbox emulates. One function answers each request."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

POLL_SEC = 0.1


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(status: int, body: Any) -> Answer:
    """Return an answer with a JSON value."""
    return Answer(status, json.dumps(body), "application/json; charset=utf-8")


RequestHandler = Callable[[BaseHTTPRequestHandler], Answer]
"""A function that reads a request's body, if any, and returns the answer."""


class LocalServer:
    """A server for these methods on 127.0.0.1 that runs until it is closed. Port 0 selects a free port."""

    def __init__(
        self,
        name: str,
        answer_request: RequestHandler,
        methods: tuple[str, ...],
        *,
        port: int = 0,
        shared: bool = False,
    ) -> None:
        """Start the server. With `shared`, other processes may serve the same port."""
        server = _SharedPort if shared else _Server
        self._server = server(("127.0.0.1", port), _handler(answer_request, methods))
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(POLL_SEC,), name=name, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Bind without the host name lookup of the base class, which takes seconds if no name server answers."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the client closed the connection. A stopped VM does not wait for the answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _SharedPort(_Server):
    allow_reuse_port = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "pulumi-sandbox"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it
        """Log nothing, because the engine uses the standard error stream."""

    def send(self, answer: Answer) -> None:
        payload = answer.body.encode()
        self.send_response_only(answer.status)
        length = str(len(payload))
        for name, value in {**answer.headers, "Content-Type": answer.kind, "Content-Length": length}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)


def _handler(answer_request: RequestHandler, methods: tuple[str, ...]) -> type[BaseHTTPRequestHandler]:
    def handle(handler: _Handler) -> None:
        handler.send(answer_request(handler))

    return type("Handler", (_Handler,), {f"do_{method}": handle for method in methods})
