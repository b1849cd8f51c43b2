"""Emulated services that VMs of the sandbox call over HTTP. One server has a path for each service."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json

PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
NAMES = ("secretmanager", "logging", "github", "storage")
"""The services whose address sandbox.yaml may use as `${name}` in a guest's environment."""
SERIAL_PORT = "serialPort"
"""The placeholder for the device of the VM's serial port. The supervisor of the VM replaces it."""
PROJECT = "project"
"""The placeholder for the project's folder. The function that reads sandbox.yaml replaces it."""


class Call(NamedTuple):
    """One request to a service. The path does not include the name of the service."""

    method: str
    path: str
    query: dict[str, list[str]]
    authorization: str
    body: Any
    """The JSON value, or None without a body."""
    headers: Mapping[str, str] = MappingProxyType({})
    """The headers by lower-case name. Empty if the service is called as a function."""
    address: str = ""
    """The base URL of the service."""


Service = Callable[[Call], Answer]


class LocalServices:
    """The server of all services. It starts when an address is first requested, and runs until it is closed."""

    def __init__(
        self,
        services: Mapping[str, Service],
        others: Mapping[str, Callable[[], str]] | None = None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the server.

        `others` has services with a server of their own: functions that return its address. `finish` is called before
        the server closes.
        """
        self._services, self._finish = services, finish
        self._others = others or {}
        self._server: LocalServer | None = None
        self._lock = threading.Lock()

    def with_addresses(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with `${name}` replaced by addresses. Without `${name}`, the server is not started."""
        return {name: PLACEHOLDER.sub(self._value, text) for name, text in environment.items()}

    def _value(self, placeholder: re.Match[str]) -> str:
        return placeholder[0] if placeholder[1] == SERIAL_PORT else self.url(placeholder[1])

    def url(self, name: str) -> str:
        """Return the address of one service."""
        if name in self._others:
            return self._others[name]()
        with self._lock:
            if self._server is None:
                self._server = LocalServer(
                    "services", partial(_answer_request, self._services), ("GET", "POST", "DELETE")
                )
            return f"http://{self._server.address}/{name}"

    def close(self) -> None:
        self._finish()
        with self._lock:
            if self._server:
                self._server.close()
                self._server = None


def _answer_request(services: Mapping[str, Service], request: Request) -> Answer:
    url = urlsplit(request.path)
    _, name, path = [*url.path.split("/", 2), "", ""][:3]
    if name not in services:
        return as_json(404, {"message": "Not Found"})
    try:
        body = json.loads(request.content) if request.content else None
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
    except Exception as error:  # like any server, answer 500 and continue
        return as_json(500, {"message": f"the sandbox's {name} failed: {error!r}"})
