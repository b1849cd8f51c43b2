"""Serves the fake GitHub over HTTP, including its faults."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpu_agent.http import Answer

from .github import FakeGithub

_DRIP_SEC = 1.0


@contextmanager
def serving(github: FakeGithub) -> Iterator[str]:
    """Return the URL of its API. At the end of the block, requests that hang or drip are released."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            sent = {name.lower(): value for name, value in self.headers.items()}
            fault = github.fault_of(self.command, self.path)
            honest = None
            if fault is None or fault.done_anyway or not (fault.how or fault.status):
                honest = github.answer(self.command, self.path, sent, body)
            answer = honest or Answer(200, {}, b'{"message": "an answer that never arrives whole"}')
            if fault is not None:
                status, content = (fault.status, fault.body) if fault.status else (answer.status, answer.body)
                more = {name.lower(): value for name, value in fault.headers.items()}
                answer = Answer(status, {**answer.headers, **more}, content)
            with suppress(OSError):
                self._say(_written(answer, github), fault.how if fault else "")

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the names are http.server's

        def _say(self, content: bytes, how: str) -> None:
            if how == "hang":
                over.wait()
            elif how == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                self.connection.close()
            elif how == "truncated":
                self.wfile.write(content[:-1])
            elif how == "drip":
                for each in content:
                    self.wfile.write(bytes([each]))
                    if over.wait(_DRIP_SEC):
                        break
            else:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Write no log, because tests read the requests from the fake."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            over.set()
            server.shutdown()
            thread.join()


def _written(answer: Answer, github: FakeGithub) -> bytes:
    headers = {"date": formatdate(github.unix(), usegmt=True), **answer.headers}
    if answer.status != 204:
        headers["content-length"] = str(len(answer.body))
    lines = [f"HTTP/1.1 {answer.status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + answer.body
