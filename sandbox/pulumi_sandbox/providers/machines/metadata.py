"""The metadata server at GCE_METADATA_HOST, for a VM or a library that looks for credentials."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request
from pulumi_sandbox.workspace import TOKEN_VARIABLE

ROOT = "/computeMetadata/v1"
FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
TOKEN = f"ya29.{os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)}"
"""The beginning of the tokens that the servers of this process issue and accept."""
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
CHANGE_CHECK_SEC = 0.5
"""The interval at which a value is checked for a request that waits for a change."""
GUEST_ATTRIBUTES = ("instance", "guest-attributes")


def text(status: int, body: str, kind: str = "application/text") -> Answer:
    """Return an answer of the metadata server."""
    return Answer(status, body, kind, FLAVOR)


_OPERATOR = "sandbox@"


def operator(project: str) -> str:
    """Return the account of the sandbox's user, who owns the project."""
    return f"{_OPERATOR}{project}.iam.gserviceaccount.com"


def is_operator(email: str | None) -> bool:
    """Return True if the email is that of the sandbox's user in any project. The user owns all projects."""
    return (email or "").startswith(_OPERATOR)


def token_of(email: str) -> str:
    """Return the token of an account. The token names the account, for the services of the sandbox."""
    return f"{TOKEN}.{base64.urlsafe_b64encode(email.encode()).decode().rstrip('=')}"


def is_token(authorization: str) -> bool:
    """Return True if the header has a token that the sandbox issued."""
    token = authorization.removeprefix("Bearer ")
    return authorization.startswith("Bearer ") and (token == TOKEN or token.startswith(f"{TOKEN}."))


def account_of(authorization: str) -> str | None:
    """Return the account of the token in a header, or None if the token names no account."""
    if not is_token(authorization):
        return None
    name = authorization.removeprefix(f"Bearer {TOKEN}").removeprefix(".")
    try:
        return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode() or None
    except ValueError:
        return None


def service_accounts(email: str, scopes: list[str]) -> dict[str, Any]:
    account = {
        "aliases": ["default"],
        "email": email,
        "scopes": scopes,
        "token": json.dumps({"access_token": token_of(email), "expires_in": 3599, "token_type": "Bearer"}),
    }
    return {"default": account, email: account}


def read(tree: dict[str, Any], path: str, query: dict[str, list[str]]) -> Answer:
    """Answer a GET: a value as text, a folder as a listing or, with recursive=true, as JSON.

    Source: documentation "Query metadata".
    """
    node: Any = tree
    for part in [part for part in path.split("/") if part]:
        if not isinstance(node, dict) or part not in node:
            return text(404, "Not Found", "text/html")
        node = node[part]
    if isinstance(node, dict) and query.get("recursive", ["false"])[-1].lower() == "true":
        return text(200, json.dumps(_without_tokens(node)), "application/json")
    if isinstance(node, dict):
        return text(
            200, "".join(f"{name}/\n" if isinstance(node[name], dict) else f"{name}\n" for name in sorted(node))
        )
    if isinstance(node, list):
        return text(200, "".join(f"{one}\n" for one in node))
    return text(200, str(node), "application/json" if path.rstrip("/").endswith("/token") else "application/text")


def _without_tokens(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_tokens(inner) for name, inner in node.items() if name != "token"}
    return node


def refusal(headers: Any) -> Answer | None:
    """Return the refusal of a request without the required header, or None.

    A web page cannot send this header (documentation "About VM metadata").
    """
    if headers.get("Metadata-Flavor") != "Google":
        return text(
            403,
            "Your client does not have permission to get this URL: missing Metadata-Flavor:Google header.",
            "text/html",
        )
    return None


@dataclass
class Machine:
    """The data of one VM's metadata server, and the functions that store guest attributes."""

    tree: Callable[[], dict[str, Any]]
    guest_attributes: Callable[[], dict[str, dict[str, str]] | None]
    """The guest attributes by namespace. None if the VM's metadata does not have enable-guest-attributes=TRUE."""
    write: Callable[[str, str, str], None]
    allows: Callable[[], bool] = lambda: True
    """Returns True if one more query of the guest attributes is within Google's limits."""
    off: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: str) -> Answer:
        parts = [unquote(part) for part in path.split("/") if part]
        if tuple(parts[:2]) == GUEST_ATTRIBUTES:
            return self._guest(method, parts[2:], query, body)
        if method != "GET":
            return text(405, "Method Not Allowed", "text/html")
        return self._read(path, query)

    def _read(self, path: str, query: dict[str, list[str]]) -> Answer:
        """Return the value. With wait_for_change=true, wait until the value differs from that of `last_etag`.

        Without timeout_sec the server waits forever (documentation "Wait for metadata updates"). The documentation
        does not cover a missing value. Here the answer for a missing value is immediate, the stricter case for a guest.
        """
        wait_for_change = query.get("wait_for_change", ["false"])[-1].lower() == "true"
        limit = query.get("timeout_sec", [""])[-1]
        deadline = time.monotonic() + (float(limit) if limit.isdecimal() else float("inf"))
        last_etag = query.get("last_etag", [""])[-1]
        while True:
            answer = read(self.tree(), path, query)
            etag = hashlib.sha256(answer.body.encode()).hexdigest()[:16]
            last_etag = last_etag or etag
            if not wait_for_change or answer.status == 404 or etag != last_etag or time.monotonic() >= deadline:
                return replace(answer, headers={**answer.headers, "ETag": etag})
            if self.off.wait(CHANGE_CHECK_SEC):
                return text(503, "Service Unavailable", "text/html")

    def _guest(self, method: str, rest: list[str], query: dict[str, list[str]], body: str) -> Answer:
        attributes = self.guest_attributes()
        if attributes is None:
            return text(403, "Guest attributes endpoint access is disabled.", "text/html")
        within_limits = self.allows()
        if method == "GET" and not within_limits:
            return text(429, "Too Many Requests", "text/html")
        if method == "GET":
            return read({"all": attributes}, "/".join(["all", *rest]), query)
        if len(rest) != 2:
            return text(400, "Guest attributes are written as guest-attributes/<namespace>/<key>.", "text/html")
        if within_limits:  # above the limits a value is lost without an error to the writer
            self.write(rest[0], rest[1], body)
        return text(200, "")


class MetadataServer:
    """The metadata server of one VM, on its own port."""

    def __init__(self, machine: Machine) -> None:
        def answer_request(request: Request) -> Answer:
            url = urlsplit(request.path)
            body = request.content.decode(errors="replace")
            if not url.path.startswith(ROOT):
                return text(200, "computeMetadata/\n") if url.path == "/" else text(404, "Not Found", "text/html")
            path = url.path.removeprefix(ROOT)
            return refusal(request.headers) or machine.answer(request.command, path, parse_qs(url.query), body)

        self._machine = machine
        self._server = LocalServer("guest-metadata", answer_request, ("GET", "PUT"))
        self.address = self._server.address

    def close(self) -> None:
        self._machine.off.set()
        self._server.close()
