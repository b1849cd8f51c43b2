"""The metadata server: what a virtual machine, or a library that looks for credentials, asks at GCE_METADATA_HOST."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer

ROOT = "/computeMetadata/v1"
FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
TOKEN = "ya29.pulumi-sandbox"  # noqa: S105 -- opens nothing: the sandbox's own API is all that takes it
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
LOOK_SEC = 0.5
"""How often a value that somebody waits for is looked at."""
GUEST_ATTRIBUTES = ("instance", "guest-attributes")


def text(status: int, body: str, kind: str = "application/text") -> Answer:
    """An answer of the metadata server."""
    return Answer(status, body, kind, FLAVOR)


_OPERATOR = "sandbox@"


def operator(project: str) -> str:
    """The account of the sandbox's user, who owns the project."""
    return f"{_OPERATOR}{project}.iam.gserviceaccount.com"


def is_operator(email: str | None) -> bool:
    """Whether it is that account under any project's name: the user owns them all."""
    return (email or "").startswith(_OPERATOR)


def token_of(email: str) -> str:
    """An account's token: it tells the sandbox's own services whose it is."""
    return f"{TOKEN}.{base64.urlsafe_b64encode(email.encode()).decode().rstrip('=')}"


def is_token(authorization: str) -> bool:
    """Whether a header has a token that the sandbox gave out."""
    given = authorization.removeprefix("Bearer ")
    return authorization.startswith("Bearer ") and (given == TOKEN or given.startswith(f"{TOKEN}."))


def account_of(authorization: str) -> str | None:
    """Whose token a header has; None for one that names nobody."""
    if not is_token(authorization):
        return None
    name = authorization.removeprefix(f"Bearer {TOKEN}").removeprefix(".")
    try:
        return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode() or None
    except ValueError:
        return None


def service_accounts(email: str, scopes: list[str]) -> dict[str, Any]:
    one = {
        "aliases": ["default"],
        "email": email,
        "scopes": scopes,
        "token": json.dumps({"access_token": token_of(email), "expires_in": 3599, "token_type": "Bearer"}),
    }
    return {"default": one, email: one}


def read(tree: dict[str, Any], path: str, query: dict[str, list[str]]) -> Answer:
    """One GET: a leaf as text, a folder as a listing, or all below it as JSON (documentation "Query metadata")."""
    node: Any = tree
    for part in [part for part in path.split("/") if part]:
        if not isinstance(node, dict) or part not in node:
            return text(404, "Not Found", "text/html")
        node = node[part]
    if isinstance(node, dict) and query.get("recursive", ["false"])[-1].lower() == "true":
        return text(200, json.dumps(_visible(node)), "application/json")
    if isinstance(node, dict):
        return text(
            200, "".join(f"{name}/\n" if isinstance(node[name], dict) else f"{name}\n" for name in sorted(node))
        )
    if isinstance(node, list):
        return text(200, "".join(f"{one}\n" for one in node))
    # A token is JSON by itself; anything else is text unless JSON is asked for.
    if path.rstrip("/").endswith("/token"):
        return text(200, str(node), "application/json")
    if query.get("alt", ["text"])[-1] == "json":
        return text(200, json.dumps(node), "application/json")
    return text(200, str(node))


def _visible(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _visible(inner) for name, inner in node.items() if name != "token"}
    return node


def refused(headers: Any) -> Answer | None:
    """The server's own protection (documentation "About VM metadata"): a header that a web page cannot send."""
    if headers.get("X-Forwarded-For"):
        return text(403, "Requests with the X-Forwarded-For header are not allowed.", "text/html")
    if headers.get("Metadata-Flavor") != "Google":
        return text(
            403,
            "Your client does not have permission to get this URL: missing Metadata-Flavor:Google header.",
            "text/html",
        )
    return None


@dataclass
class Machine:
    """What one virtual machine's metadata server knows, and where it puts guest attributes."""

    tree: Callable[[], dict[str, Any]]
    guest_attributes: Callable[[], dict[str, dict[str, str]] | None]
    """By namespace; None when the instance's metadata does not have enable-guest-attributes=TRUE."""
    write: Callable[[str, str, str | None], None]
    allows: Callable[[], bool] = lambda: True
    """Whether one more query of the guest attributes is within Google's limits."""
    off: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: str) -> Answer:
        parts = [unquote(part) for part in path.split("/") if part]
        if tuple(parts[:2]) == GUEST_ATTRIBUTES:
            return self._guest(method, parts[2:], query, body)
        if method != "GET":
            return text(405, "Method Not Allowed", "text/html")
        return self._read(path, query)

    def _read(self, path: str, query: dict[str, list[str]]) -> Answer:
        """Answer at once, or with wait_for_change=true once the value is another one than that of `last_etag`.

        Documentation "Wait for metadata updates": without timeout_sec the server waits without an end. It does not say
        what a request for a value that is missing gets; here that is answered at once, which is the less helpful way.
        """
        waits = query.get("wait_for_change", ["false"])[-1].lower() == "true"
        limit = query.get("timeout_sec", [""])[-1]
        until = time.monotonic() + (float(limit) if limit.isdecimal() else float("inf"))
        known = query.get("last_etag", [""])[-1]
        while True:
            answer = read(self.tree(), path, query)
            etag = hashlib.sha256(answer.body.encode()).hexdigest()[:16]
            known = known or etag
            if not waits or answer.status == 404 or etag != known or time.monotonic() >= until:
                return replace(answer, headers={**answer.headers, "ETag": etag})
            if self.off.wait(LOOK_SEC):
                return text(503, "Service Unavailable", "text/html")

    def _guest(self, method: str, rest: list[str], query: dict[str, list[str]], body: str) -> Answer:
        known = self.guest_attributes()
        if known is None:
            return text(403, "Guest attributes endpoint access is disabled.", "text/html")
        allowed = self.allows()
        if method == "GET" and not allowed:
            return text(429, "Too Many Requests", "text/html")
        if method == "GET":
            return read({"all": known}, "/".join(["all", *rest]), query)
        if len(rest) != 2:
            return text(400, "Guest attributes are written as guest-attributes/<namespace>/<key>.", "text/html")
        if method == "DELETE" and rest[1] not in known.get(rest[0], {}):
            return text(404, "Not Found", "text/html")
        if allowed:  # beyond the limits a value is lost, and its writer does not learn of it
            self.write(rest[0], rest[1], body if method == "PUT" else None)
        return text(200, "")


class MetadataServer:
    """One machine's metadata server, on a port of its own."""

    def __init__(self, machine: Machine) -> None:
        def answering(request: BaseHTTPRequestHandler) -> Answer:
            url = urlsplit(request.path)
            body = request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode(errors="replace")
            if not url.path.startswith(ROOT):
                return text(200, "computeMetadata/\n") if url.path == "/" else text(404, "Not Found", "text/html")
            path = url.path.removeprefix(ROOT)
            return refused(request.headers) or machine.answer(request.command, path, parse_qs(url.query), body)

        self._machine = machine
        self._server = LocalServer("guest-metadata", answering, ("GET", "PUT", "DELETE", "POST"))
        self.address = self._server.address

    def close(self) -> None:
        self._machine.off.set()
        self._server.close()
