"""The HTTP endpoint for GitHub's deliveries, as a thread of the manager."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from .hints import Hints, Reply

PATH = "/webhook"
# A delivery about one job has about 30 KiB. GitHub sends up to 25 MiB for events to which the App need not subscribe.
MOST_BYTES = 1024 * 1024
# GitHub gives up a delivery after ten seconds (docs.github.com, "Best practices for using webhooks").
_BODY_WITHIN_SEC = 10.0
# Open connections use file descriptors, which the manager needs for its own requests.
_CONNECTIONS = 100
_CONNECTION_SEC = 30.0
_STOP_WITHIN_SEC = 5.0


class _Connection(H11Protocol):
    """A connection with a time limit. uvicorn limits requests, but not connections without a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = self.loop.call_later(_CONNECTION_SEC, transport.abort)
        if len(self.connections) > _CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end.cancel()


def application(hints: Hints) -> Starlette:
    """Return the application. POST /webhook receives deliveries; there is no other route."""

    async def deliver(request: Request) -> Response:
        try:
            async with asyncio.timeout(_BODY_WITHIN_SEC):
                body = await _body(request)
        except TimeoutError:
            return PlainTextResponse("the body did not arrive in time\n", 408)
        if body is None:
            return PlainTextResponse(f"the body has more than {MOST_BYTES} bytes\n", 413)
        reply = _take(hints, request, body)
        return PlainTextResponse(f"{reply.text}\n", reply.status)

    return Starlette(routes=[Route(PATH, deliver, methods=["POST"])])


@contextmanager
def serving(hints: Hints, listener: socket.socket) -> Iterator[None]:
    """Serve on an open socket until the end of the block."""
    config = uvicorn.Config(
        application(hints),
        http=_Connection,
        lifespan="off",
        access_log=False,
        log_level="error",
        server_header=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="webhook", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_WITHIN_SEC)


async def _body(request: Request) -> bytes | None:
    """Return the body, or None if it is too long. No more than the limit is kept in memory."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            return None
    return bytes(found)


def _take(hints: Hints, request: Request, body: bytes) -> Reply:
    try:
        return hints.take(request.headers, body)
    except OSError:
        return Reply(503, "the webhook's secret cannot be read")
