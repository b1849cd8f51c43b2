"""A server on this computer that answers requests with JSON, in place of GitHub or Google."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def json_server(answer: Callable[[str, bytes, str], tuple[int, Any]]) -> Iterator[str]:
    """Yield the address. `answer` returns a status and a JSON value, or a text.

    It gets the path, the body and the authorization of a request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, value = answer(self.path, given, self.headers.get("Authorization", ""))
            body = (value if isinstance(value, str) else json.dumps(value)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the base class's names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
