"""Serves the fake endpoint over HTTP on this computer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .fake_vertex import FakeVertex


@contextmanager
def served(fake: FakeVertex) -> Iterator[str]:
    """Yield the address, such as http://127.0.0.1:4711."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            # google-cloud-aiplatform reads operations below /ui/, as its transport for REST says.
            path = self.path.replace("/ui/", "/v1/", 1)
            response, body = fake.request(f"http://fake{path}", self.command, given)
            self.send_response(int(response["status"]))
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
