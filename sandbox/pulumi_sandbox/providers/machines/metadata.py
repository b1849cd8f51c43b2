"""The metadata server: what a virtual machine, or a library that looks for credentials, asks at GCE_METADATA_HOST."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = "/computeMetadata/v1"
FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
TOKEN = "ya29.pulumi-sandbox"  # noqa: S105 -- opens nothing: the sandbox's own API is all that takes it
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
GUEST_ATTRIBUTES = ("instance", "guest-attributes")


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    kind: str = "application/text"
    headers: dict[str, str] = field(default_factory=lambda: dict(FLAVOR))


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
            return Answer(404, "Not Found", "text/html")
        node = node[part]
    if isinstance(node, dict) and query.get("recursive", ["false"])[-1].lower() == "true":
        return Answer(200, json.dumps(_visible(node)), "application/json")
    if isinstance(node, dict):
        return Answer(
            200, "".join(f"{name}/\n" if isinstance(node[name], dict) else f"{name}\n" for name in sorted(node))
        )
    if isinstance(node, list):
        return Answer(200, "".join(f"{one}\n" for one in node))
    # A token is JSON by itself; anything else is text unless JSON is asked for.
    if path.rstrip("/").endswith("/token"):
        return Answer(200, str(node), "application/json")
    if query.get("alt", ["text"])[-1] == "json":
        return Answer(200, json.dumps(node), "application/json")
    return Answer(200, str(node))


def _visible(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _visible(inner) for name, inner in node.items() if name != "token"}
    return node


def refused(headers: Any) -> Answer | None:
    """The server's own protection (documentation "About VM metadata"): a header that a web page cannot send."""
    if headers.get("X-Forwarded-For"):
        return Answer(403, "Requests with the X-Forwarded-For header are not allowed.", "text/html")
    if headers.get("Metadata-Flavor") != "Google":
        return Answer(
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

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: str) -> Answer:
        parts = [unquote(part) for part in path.split("/") if part]
        if tuple(parts[:2]) == GUEST_ATTRIBUTES:
            return self._guest(method, parts[2:], query, body)
        if method != "GET":
            return Answer(405, "Method Not Allowed", "text/html")
        return read(self.tree(), path, query)

    def _guest(self, method: str, rest: list[str], query: dict[str, list[str]], body: str) -> Answer:
        known = self.guest_attributes()
        if known is None:
            return Answer(403, "Guest attributes endpoint access is disabled.", "text/html")
        if method == "GET":
            return read({"all": known}, "/".join(["all", *rest]), query)
        if len(rest) != 2:
            return Answer(400, "Guest attributes are written as guest-attributes/<namespace>/<key>.", "text/html")
        if method == "DELETE" and rest[1] not in known.get(rest[0], {}):
            return Answer(404, "Not Found", "text/html")
        self.write(rest[0], rest[1], body if method == "PUT" else None)
        return Answer(200, "")


class LocalServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Without the base class's look-up of this host's name, which can take seconds where no name server answers."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])


class MetadataServer:
    """One machine's metadata server, on a port of its own."""

    def __init__(self, machine: Machine) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it
                """Standard error belongs to the engine."""

            def handle_any(self) -> None:
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
                if not url.path.startswith(ROOT):
                    answer = (
                        Answer(200, "computeMetadata/\n") if url.path == "/" else Answer(404, "Not Found", "text/html")
                    )
                else:
                    path = url.path.removeprefix(ROOT)
                    answer = refused(self.headers) or machine.answer(self.command, path, parse_qs(url.query), body)
                send(self, answer)

            def do_GET(self) -> None:
                self.handle_any()

            def do_PUT(self) -> None:
                self.handle_any()

            def do_DELETE(self) -> None:
                self.handle_any()

            def do_POST(self) -> None:
                self.handle_any()

        self.server = LocalServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, name="guest-metadata", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    payload = answer.body.encode()
    handler.send_response_only(answer.status)
    for name, value in {**answer.headers, "Content-Type": answer.kind, "Content-Length": str(len(payload))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(payload)
