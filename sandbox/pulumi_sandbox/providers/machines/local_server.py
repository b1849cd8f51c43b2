"""A local HTTP server for the services that the sandbox emulates. One function answers each request.

Some of these services run commands as the user of the sandbox. So every server refuses requests of other users of the
computer, and requests for another host, which a web page sends after DNS rebinding. Only Linux has a table with the
user of a connection. On other systems, the tokens of the services remain.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

POLL_SEC = 0.1
LARGEST_BODY = 10 * 1024 * 1024
CONNECTIONS = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
"""The kernel's tables of connections (proc(5)): the addresses are its fields 1 and 2, and the user is its field 7."""
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    """A body that is not text."""


def as_json(status: int, body: Any) -> Answer:
    """Return an answer with a JSON value."""
    return Answer(status, json.dumps(body), "application/json; charset=utf-8")


def is_own_user(peer_port: int, port: int) -> bool:
    """Return True if the other end of a local connection belongs to this process's user, or to root."""
    if not CONNECTIONS[0].exists():
        return True
    for _ in range(3):  # The kernel may leave out a connection while the table changes.
        for file, address in zip(CONNECTIONS, LOOPBACK, strict=True):
            for line in file.read_text().splitlines()[1:] if file.exists() else ():
                fields = line.split()
                if fields[1:3] == [f"{address}:{peer_port:04X}", f"{address}:{port:04X}"]:
                    return int(fields[7]) in (os.geteuid(), 0)
    return False


class Request(BaseHTTPRequestHandler):
    """One request with its body. Requests that no client of this user sends are refused."""

    protocol_version = "HTTP/1.1"
    server_version = "pulumi-sandbox"
    server: ThreadingHTTPServer
    content: bytes
    largest_body: int

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        length, port = self.headers.get("Content-Length") or "0", self.server.server_port
        hosts, status = (f"127.0.0.1:{port}", f"localhost:{port}"), None
        if self.headers.get("Host") not in hosts or not is_own_user(self.client_address[1], port):
            status = HTTPStatus.FORBIDDEN
        elif not length.isdecimal():
            status = HTTPStatus.BAD_REQUEST
        elif int(length) > self.largest_body:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if status is None:
            self.content = self.rfile.read(int(length))
            return True
        self.close_connection = True
        answer = as_json(status, {"message": status.phrase})
        self.send(answer.status, answer.body.encode(), {"Content-Type": answer.kind, "Connection": "close"})
        return False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it
        """Log nothing, because the engine uses the standard error stream."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


RequestHandler = Callable[[Request], Answer]
"""A function that returns the answer to a request."""


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
        largest_body: int = LARGEST_BODY,
    ) -> None:
        """Start the server. With `shared`, other processes may serve the same port."""
        server = _SharedPort if shared else _Server
        self._server = server(("127.0.0.1", port), _handler(answer_request, methods, largest_body))
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


def _handler(answer_request: RequestHandler, methods: tuple[str, ...], largest_body: int) -> type[Request]:
    def handle(request: Request) -> None:
        answer = answer_request(request)
        content = answer.content or answer.body.encode()
        request.send(answer.status, content, {**answer.headers, "Content-Type": answer.kind})

    return type("Handler", (Request,), {"largest_body": largest_body, **{f"do_{method}": handle for method in methods}})
