"""Servers on this computer that answer requests with JSON, in place of GitHub or Google."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def json_server(answer: Callable[[str, bytes, str], tuple[int, Any]]) -> AbstractContextManager[str]:
    """Yield the address. `answer` returns a status and a JSON value, or a text.

    It gets the path, the body and the authorization of a request.
    """

    def respond(request: BaseHTTPRequestHandler, given: bytes) -> tuple[int, bytes]:
        status, value = answer(request.path, given, request.headers.get("Authorization", ""))
        return status, (value if isinstance(value, str) else json.dumps(value)).encode()

    return served(respond)


@contextmanager
def served(respond: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes]]) -> Iterator[str]:
    """Yield the address, such as http://127.0.0.1:4711.

    `respond` gets a request and its body, and returns the status and the body of the answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = respond(self, given)
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_GET  # noqa: N815 - the base class's names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
