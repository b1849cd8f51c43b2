"""The webhook for GitHub's events, as a thread of the manager.

It verifies GitHub's deliveries (requests to the webhook). An event is a hint: it starts the next pass early, and no
action of the manager depends on the content of a delivery.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from gpu_ci.cli.output import InputError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

# docs.github.com, "Webhook events and payloads", delivery headers; the signature is "sha256=" and 64 hex digits.
_SIGNATURE, _EVENT, _DELIVERY = "x-hub-signature-256", "x-github-event", "x-github-delivery"
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
# A redelivery has the id of its first delivery (docs.github.com, "Best practices for using webhooks").
_REMEMBERED = 1000
# The events and actions that start a pass. A job that has started has its machine, so it needs no pass. A run that has
# ended may be run again.
_WAKING = {"workflow_job": ("queued", "waiting", "completed"), "workflow_run": ("completed",)}
PATH = "/webhook"
# A delivery about one job has about 30 KiB. GitHub sends up to 25 MiB for events to which the App need not subscribe.
MOST_BYTES = 1024 * 1024
# GitHub gives up a delivery after ten seconds (docs.github.com, "Best practices for using webhooks").
_BODY_WITHIN_SEC = 10.0
# Open connections use file descriptors, which the manager needs for its own requests.
_CONNECTIONS = 100
_CONNECTION_SEC = 30.0
_STOP_WITHIN_SEC = 5.0
_ADDRESS = re.compile(r"\[?(?P<host>[0-9A-Za-z.:-]*?)\]?:(?P<port>[0-9]{1,5})")
# docs.github.com, "Validating webhook deliveries": a random string with high entropy.
_LEAST_SECRET = 16


def secret_in(file: Path) -> bytes:
    """Return the webhook's secret without its line end. Raises OSError if it is missing or too short."""
    found = file.read_bytes().strip()
    if len(found) < _LEAST_SECRET:
        raise OSError(0, f"has fewer than {_LEAST_SECRET} characters")
    return found


def listening(
    address: str, secret_file: Path, labels: Collection[str], wake: Callable[[], None]
) -> AbstractContextManager[None]:
    """Receive deliveries at this address in the block. Raises InputError for a mistake."""
    try:
        secret_in(secret_file)
    except OSError as error:
        hint = "create a secret with openssl rand -hex 32, and enter it in the webhook's settings too"
        raise InputError(f"--webhook-secret: {secret_file}: {error.strerror}", hint=hint) from None
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise InputError("--webhook: is not an address", got=address, expected="HOST:PORT, such as 127.0.0.1:8080")
    hints = Hints(lambda: secret_in(secret_file), labels, wake)

    @contextmanager
    def receiving() -> Iterator[None]:
        with _listener(found["host"], int(found["port"])) as listener, serving(hints, listener):
            yield

    return receiving()


def _listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"--webhook: {host}:{port}: {error.strerror}", hint="use another HOST:PORT of this computer"
        ) from None


class Reply(NamedTuple):
    """The answer to a delivery."""

    status: int
    text: str
    wakes: bool = False


class Hints:
    """Answers deliveries. Several threads may use the object.

    Args:
        secret: Reads the webhook's secret for each delivery, so that a new one needs no restart.
        labels: Labels of the pools' runners in lower case. A job with none of them wakes nothing.
        wake: Called for each delivery that wakes the manager.
    """

    def __init__(self, secret: Callable[[], bytes], labels: Collection[str], wake: Callable[[], None]) -> None:
        self._secret, self._labels, self._wake = secret, frozenset(labels), wake
        self._delivery_ids: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer a delivery. `headers` has lower-case names. The signature is verified before the body is parsed."""
        if not self._is_signed(headers.get(_SIGNATURE, ""), body):
            return Reply(401, f"{_SIGNATURE}: is not the signature of this body with the webhook's secret")
        event, delivery = headers.get(_EVENT, ""), headers.get(_DELIVERY, "")
        if not event or not _ID.fullmatch(delivery):
            return Reply(400, f"{_EVENT} or {_DELIVERY} is missing")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return Reply(415, "content-type: expected application/json, which the webhook's settings offer")
        try:
            payload = json.loads(body)
        except (ValueError, RecursionError):
            return Reply(400, "the body is not JSON")
        if self._is_repeated(delivery):
            return Reply(202, "this delivery was already received")
        if not self._wakes(event, payload):
            return Reply(202, "this event starts no pass")
        self._wake()
        return Reply(202, "the manager looks for jobs", wakes=True)

    def _is_signed(self, signature: str, body: bytes) -> bool:
        expected = "sha256=" + hmac.new(self._secret(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode())

    def _is_repeated(self, delivery: str) -> bool:
        with self._lock:
            if delivery in self._delivery_ids:
                return True
            self._delivery_ids[delivery] = None
            if len(self._delivery_ids) > _REMEMBERED:
                self._delivery_ids.popitem(last=False)
            return False

    def _wakes(self, event: str, payload: Any) -> bool:
        if not isinstance(payload, dict) or payload.get("action") not in _WAKING.get(event, ()):
            return False
        job = payload.get("workflow_job")
        if event != "workflow_job" or not isinstance(job, dict) or not isinstance(job.get("labels"), list):
            return event == "workflow_run"
        return not self._labels.isdisjoint(str(label).lower() for label in job["labels"])


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
