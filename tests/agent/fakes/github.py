"""A fake GitHub that checks an App's key, clock and permissions, and the rules of the requests that a runner needs.

`answer` is the whole server without a network. `serving` serves it over HTTP; `ask_of` calls it with a fake
clock. Messages are GitHub's own if they are known (octokit/auth-app.js@010203fa:src/hook.ts has that about the clock).
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from gpu_agent.config import GithubConfig, RunnerConfig
from gpu_agent.github.registration import Github, Registration
from gpu_agent.http import Answer, Unreachable
from gpu_agent.outcomes import AgentExit

from .clock import FakeClock

ROUTES = {
    "token": r"POST /app/installations/(?P<installation>\d+)/access_tokens",
    "groups": r"GET /orgs/(?P<owner>[^/]+)/actions/runner-groups",
    "runners": r"GET /(?:orgs/(?P<owner>[^/]+)|repos/(?P<repository>[^/]+/[^/]+))/actions/runners",
    "register": r"POST /(?:orgs/(?P<owner>[^/]+)|repos/(?P<repository>[^/]+/[^/]+))/actions/runners/generate-jitconfig",
    "remove": r"DELETE /(?:orgs/(?P<owner>[^/]+)|repos/(?P<repository>[^/]+/[^/]+))/actions/runners/(?P<runner>\d+)",
}


@dataclass
class Fault:
    """A fault of one request to a route."""

    how: str = ""
    """hang, drip, reset or truncated; empty for a complete answer."""
    status: int = 0
    """The status of the answer, with `headers` added; 0 for the normal answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "a planned fault"}'
    done_anyway: bool = False
    """True if the request is carried out, and only its answer is lost or replaced."""


class Refusal(Exception):  # noqa: N818 - an answer
    """GitHub's answer with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeGithub:
    """One App, installed once, in the organization `acme` with the repository `acme/kernels`."""

    def __init__(self, public_key: RSAPublicKey, unix: Callable[[], float]) -> None:
        self.public_key = public_key
        self.unix = unix
        self.app_id = "12345"
        self.installation = 77
        self.granted = {"organization_self_hosted_runners": "write", "administration": "write", "metadata": "read"}
        self.repositories = ["kernels", "website"]
        self.extra_permissions: dict[str, str] = {}
        """Permissions that are added to each token although they were not requested. The real GitHub never does that.
        """
        self.groups = {1: "Default", 2: "GitHub-hosted", 7: "gpu"}
        self.runners: dict[int, dict[str, Any]] = {}
        self.busy: set[int] = set()
        self.tokens: dict[str, dict[str, Any]] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.asked: list[str] = []
        """The route of every request, with or without a fault."""
        self.bearers: list[str] = []
        self.headers: list[Mapping[str, str]] = []

    def fault_of(self, method: str, target: str) -> Fault | None:
        """Return the next planned fault for a request, and remove it from the plan."""
        route, _ = self._routed(method, target)
        self.asked.append(route)
        planned = self.faults.get(route, [])
        return planned.pop(0) if planned else None

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the normal answer. `headers` has lower-case names."""
        date = {"date": formatdate(self.unix(), usegmt=True), "content-type": "application/json; charset=utf-8"}
        self.headers.append(headers)
        try:
            route, found = self._routed(method, target)
            bearer = headers.get("authorization", "").removeprefix("Bearer ")
            self.bearers.append(bearer)
            query = {key: values[-1] for key, values in parse_qs(urlsplit(target).query).items()}
            if route == "token":
                self._check_jwt(bearer)
                status, value = 201, self._new_token(int(found["installation"]), json.loads(body))
            else:
                self._check_token(bearer, route, found)
                status, value = getattr(self, f"_{route}")(found, query, json.loads(body or b"{}"))
        except Refusal as refusal:
            status, value = refusal.status, {"message": str(refusal), "status": str(refusal.status)}
        return Answer(status, date, b"" if status == 204 else json.dumps(value).encode())

    def _routed(self, method: str, target: str) -> tuple[str, dict[str, str]]:
        for route, pattern in ROUTES.items():
            if found := re.fullmatch(pattern, f"{method} {urlsplit(target).path}"):
                return route, {key: value for key, value in found.groupdict().items() if value}
        raise AssertionError(f"the agent asks for something that GitHub does not have: {method} {target}")

    def _check_jwt(self, token: str) -> None:
        signed, _, signature = token.rpartition(".")
        head, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        try:
            self.public_key.verify(_decoded(signature), signed.encode(), PKCS1v15(), SHA256())
        except InvalidSignature:
            raise Refusal(401, "A JSON web token could not be decoded") from None
        now = self.unix()
        if head["alg"] != "RS256" or type(claims["iat"]) is not int or claims["iat"] > now:
            words = "must be an Integer representing the time that the assertion was issued"
            raise Refusal(401, f"'Issued at' claim ('iat') {words}")
        if claims["exp"] <= now:
            words = "must be a numeric value representing the future time at which the assertion expires"
            raise Refusal(401, f"'Expiration time' claim ('exp') {words}")
        if claims["exp"] > now + 600:
            raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
        if claims["iss"] != self.app_id:
            raise Refusal(404, "Integration not found")

    def _new_token(self, installation: int, asked: dict[str, Any]) -> dict[str, Any]:
        if installation != self.installation:
            raise Refusal(404, "Not Found")
        # Without requested permissions, a token gets everything that the installation has.
        permissions = asked.get("permissions") or self.granted
        if any(self.granted.get(name) != level for name, level in permissions.items()):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
        repositories = asked.get("repositories")
        if any(name not in self.repositories for name in repositories or []):
            raise Refusal(422, "There is at least one repository that does not exist or is not accessible.")
        token = f"ghs_planted{len(self.tokens)}"
        given = {**permissions, "metadata": "read", **self.extra_permissions}
        self.tokens[token] = {"permissions": given, "repositories": repositories, "expires": self.unix() + 3600}
        value: dict[str, Any] = {"token": token, "expires_at": "2027-01-15T09:00:00Z", "permissions": given}
        # An installation for selected repositories lists them, as in GitHub's own example.
        names = self.repositories if repositories is None else repositories
        return {**value, "repository_selection": "selected", "repositories": [{"name": name} for name in names]}

    def _check_token(self, token: str, route: str, found: dict[str, str]) -> None:
        known = self.tokens.get(token)
        if known is None or known["expires"] <= self.unix():
            raise Refusal(401, "Bad credentials")
        owner, _, repository = found.get("repository", found.get("owner", "")).partition("/")
        if owner.lower() != "acme" or (repository and repository not in self.repositories):
            raise Refusal(404, "Not Found")
        needed = "administration" if repository else "organization_self_hosted_runners"
        levels = ("write",) if route in ("register", "remove") else ("read", "write")
        unnamed = repository and known["repositories"] is not None and repository not in known["repositories"]
        if known["permissions"].get(needed) not in levels or unnamed:
            raise Refusal(403, "Resource not accessible by integration")

    def _groups(self, _found: dict[str, str], query: dict[str, str], _body: Any) -> tuple[int, dict[str, Any]]:
        size, page = min(int(query.get("per_page", "30")), 100), int(query.get("page", "1"))
        groups = [{"id": number, "name": name} for number, name in sorted(self.groups.items())]
        return 200, {"total_count": len(groups), "runner_groups": groups[size * (page - 1) : size * page]}

    def _runners(self, _found: dict[str, str], _query: dict[str, str], _body: Any) -> tuple[int, dict[str, Any]]:
        return 200, {"total_count": len(self.runners), "runners": list(self.runners.values())}

    def _register(self, found: dict[str, str], _query: dict[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        if not body.get("name") or len(body["name"]) > 64 or not isinstance(body.get("runner_group_id"), int):
            raise Refusal(422, "Invalid input: object is missing required key: name or runner_group_id")
        if not 1 <= len(body.get("labels", [])) <= 100:
            raise Refusal(422, "Invalid input: labels has too few or too many items")
        group = body["runner_group_id"]
        if group not in self.groups or ("repository" in found and group != 1):
            raise Refusal(404, "Not Found")
        if self.groups[group] == "GitHub-hosted":
            raise Refusal(403, "Resource not accessible by integration")
        if any(runner["name"] == body["name"] for runner in self.runners.values()):
            raise Refusal(409, f"Already exists - A runner with the name {body['name']} already exists.")
        number = 1 + max(self.runners, default=100)
        self.runners[number] = {"id": number, **body}
        return 201, {"runner": self.runners[number], "encoded_jit_config": f"planted-jitconfig-{number}"}

    def _remove(self, found: dict[str, str], _query: dict[str, str], _body: Any) -> tuple[int, None]:
        number = int(found["runner"])
        if number not in self.runners:
            raise Refusal(404, "Not Found")
        if number in self.busy:
            raise Refusal(422, "The runner is currently running a job and cannot be deleted.")
        del self.runners[number]
        return 204, None


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def ask_of(github: FakeGithub, clock: FakeClock) -> Callable[..., Answer]:
    """Return a replacement of http.ask without a network. Faults advance the fake clock, and a request takes 0.1 s."""

    def ask(
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: float,
        clock: FakeClock = clock,
    ) -> Answer:
        if clock.now() >= deadline:
            raise Unreachable(method, url, "the deadline has passed")
        clock.now_sec = min(clock.now_sec + 0.1, deadline)
        target = url.removeprefix("https://api.github.com")
        fault = github.fault_of(method, target)
        sent = {name.lower(): value for name, value in headers.items()}
        honest = None
        if fault is None or fault.done_anyway or not (fault.how or fault.status):
            honest = github.answer(method, target, sent, body or b"")
        if fault is None:
            assert honest is not None
            return honest
        if fault.how in ("hang", "drip"):
            clock.now_sec = deadline
        if fault.how:
            raise Unreachable(method, url, fault.how)
        more = {name.lower(): value for name, value in fault.headers.items()}
        if fault.status:
            date = {"date": formatdate(github.unix(), usegmt=True)}
            return Answer(fault.status, {**date, **more}, fault.body)
        assert honest is not None
        return honest._replace(headers={**honest.headers, **more})

    return ask


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


CONFIG = GithubConfig(
    owner="acme",
    app_id="12345",
    installation_id=77,
    private_key="projects/p/secrets/s",
    labels=["self-hosted", "gpu", "l4"],
    runner_group="gpu",
)
RUNNER = RunnerConfig(version="2.330.0", sha256={})


class World:
    """The agent and GitHub on one fake clock."""

    def __init__(self, key: bytes, public_key: RSAPublicKey) -> None:
        self.key = key
        self.clock = FakeClock()
        self.github = FakeGithub(public_key, self.clock.true_unix)

    def agent(self, **changes: Any) -> Github:
        config = dataclasses.replace(CONFIG, **changes)
        return Github(config, self.key, self.clock, ask_of(self.github, self.clock))

    def register(self, name: str = "runner-a", **changes: Any) -> Registration:
        return self.agent(**changes).register(name, RUNNER, self.clock.now() + 300)

    def ended(self, **changes: Any) -> str:
        with pytest.raises(AgentExit) as ended:
            self.register(**changes)
        return str(ended.value)
