"""Services that machines of the sandbox reach over HTTP in the place of a vendor's: one server, a path for each."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, as_json

PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
NAMES = ("secretmanager", "logging", "github")
"""What a guest's environment in sandbox.yaml may name as `${…}`."""
SERIAL_PORT = "serialPort"
"""Named in the same way: the device of the machine's own serial port, which its supervisor fills in."""
PROJECT = "project"
"""Named in the same way: the project's folder, which the settings fill in."""
LARGEST_BODY = 10 * 1024 * 1024


class Call(NamedTuple):
    """One request, without the part of its path that says for which service it is."""

    method: str
    path: str
    query: dict[str, list[str]]
    authorization: str
    body: Any
    """The JSON value; None where there was no body."""
    headers: Mapping[str, str] = MappingProxyType({})
    """By lower-case name; empty where the service is called as a function."""
    address: str = ""
    """Where the service is: what its own path is added to."""


Service = Callable[[Call], Answer]


class LocalServices:
    """Serves from the first time that somebody asks for an address until it is closed."""

    def __init__(self, services: Mapping[str, Service]) -> None:
        self._services = services
        self._server: LocalServer | None = None
        self._lock = threading.Lock()

    def filled(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables with addresses in the place of `${name}`; nothing is served where there are none."""
        return {name: PLACEHOLDER.sub(self._value, text) for name, text in environment.items()}

    def _value(self, found: re.Match[str]) -> str:
        return found[0] if found[1] == SERIAL_PORT else self.url(found[1])

    def url(self, name: str) -> str:
        """The address of one of the services."""
        with self._lock:
            if self._server is None:
                self._server = LocalServer("services", partial(_answering, self._services), ("GET", "POST", "DELETE"))
            return f"http://{self._server.address}/{name}"

    def close(self) -> None:
        with self._lock:
            if self._server:
                self._server.close()
                self._server = None


def _answering(services: Mapping[str, Service], request: BaseHTTPRequestHandler) -> Answer:
    url = urlsplit(request.path)
    _, name, path = [*url.path.split("/", 2), "", ""][:3]
    length = int(request.headers.get("Content-Length") or 0)
    if length > LARGEST_BODY or name not in services:
        request.close_connection = True
        return as_json(413 if length > LARGEST_BODY else 404, {"message": "Not Found"})
    text = request.rfile.read(length)
    try:
        body = json.loads(text) if text else None
    except ValueError:
        return as_json(400, {"message": "Problems parsing JSON"})
    headers = {key.lower(): value for key, value in request.headers.items()}
    call = Call(
        request.command,
        f"/{unquote(path)}",
        parse_qs(url.query),
        headers.get("authorization", ""),
        body,
        headers,
        f"http://{headers.get('host', '')}/{name}",
    )
    try:
        return services[name](call)
    except Exception as error:  # a server answers 500, and goes on
        return as_json(500, {"message": f"the sandbox's {name} failed: {error!r}"})
