"""The calls of GitHub's REST API that Apps use: tokens, runner groups, runners, workflow runs and their jobs."""

from __future__ import annotations

import base64
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from fnmatch import fnmatchcase
from functools import cached_property

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.runners_api import PREFIX, RunnerProtocol, RunnersApi
from pulumi_sandbox.providers.github.actions.runs_api import RunsApi, StatusesApi
from pulumi_sandbox.providers.github.actions.state import Actions
from pulumi_sandbox.providers.github.organizations import DEFAULT_PERMISSIONS, Organizations
from pulumi_sandbox.providers.github.repositories import Repositories, Repository
from pulumi_sandbox.providers.github.rest import NO_ACCESS, Caller, Refused, Request, Route, paged
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.rsa_key import signed
from pulumi_sandbox.world.store import World

TOKENS = r"/app/installations/(?P<number>\d+)/access_tokens"
# docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api: a request needs a User-Agent.
NO_USER_AGENT = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"


@dataclass
class GithubAppApi:
    """The API of one world. `patterns` are the globs under `exists: github` in sandbox.yaml."""

    world: World
    patterns: tuple[str, ...] = ()
    organizations: Organizations = field(default_factory=Organizations)
    now: Callable[[], float] = time.time

    @cached_property
    def repositories(self) -> Repositories:
        return Repositories(self.world, self.patterns)

    @cached_property
    def actions(self) -> Actions:
        return Actions(self.world, self.repositories, self.now)

    @cached_property
    def _installations(self) -> Installations:
        return Installations(self.repositories, self.organizations, self.now)

    @cached_property
    def _routes(self) -> list[Route]:
        repositories_route = Route("GET", "/installation/repositories", "", "", self._installation_repositories)
        apis = (RunnersApi(self.actions), RunsApi(self.actions), StatusesApi(self.world))
        return [repositories_route, *(route for api in apis for route in api.routes())]

    def answer(self, call: Call) -> Answer:
        """Answer one request. Refusals have the form of GitHub."""
        try:
            if call.headers and not call.headers.get("user-agent"):
                raise Refused(403, NO_USER_AGENT)
            if call.method == "POST" and (match := re.fullmatch(TOKENS, call.path)):
                self._apply_fault("token", call)
                answer = self._installations.token(call, match["number"])
            else:
                self.actions.apply_time()
                is_runner_call = call.path.startswith(PREFIX)
                answer = RunnerProtocol(self.actions).answer(call) if is_runner_call else self._answer_route(call)
        except Refused as refusal:
            answer = refusal.answer()
        headers = {**answer.headers, "Date": formatdate(self.now(), usegmt=True)}
        return Answer(answer.status, answer.body, answer.kind, headers)

    def _answer_route(self, call: Call) -> Answer:
        caller = self._installations.caller(call)
        for route in self._routes:
            if route.method == call.method and (match := re.fullmatch(route.pattern, call.path)):
                parts = match.groupdict()
                repository = self._repository(parts, caller)
                if route.permission and not caller.may(route.permission, route.level):
                    needed = {"X-Accepted-GitHub-Permissions": f"{route.permission}={route.level}"}
                    raise Refused(403, NO_ACCESS, needed)
                self._apply_fault(route.name, call)
                request = Request(call, caller, repository)
                return route.answer(request, **({**parts, "repository": repository} if repository else parts))
        raise Refused(404, "Not Found")

    def _repository(self, parts: dict[str, str], caller: Caller) -> Repository | None:
        """Return the repository that a path names. The installation and the token must have access to it."""
        name = parts.pop("repo", None)
        full_name = f"{parts.pop('owner')}/{name}" if name else parts.get("owner", "").removeprefix("repos/")
        if "/" not in full_name or full_name.startswith("orgs/"):
            return None
        repository = self.repositories.get(full_name)
        if repository is None or (caller.repositories is not None and repository.id not in caller.repositories):
            raise Refused(404, "Not Found")
        return repository

    def _installation_repositories(self, request: Request) -> Answer:
        allowed = request.caller.repositories
        rows = [one for one in self.repositories.all() if allowed is None or one.id in allowed]
        selection = "all" if allowed is None else "selected"
        return paged(request, "repositories", rows, documents.repository, repository_selection=selection)

    def _apply_fault(self, name: str, call: Call) -> None:
        """Refuse the call if a planted fault applies. A message may begin with the status, such as 502."""
        if fault := self.world.take_fault("refuse", f"github:rest/{name}", call.path):
            message = fault.message or f"{NO_ACCESS} (a planted fault)"
            status = re.match(r"([345]\d\d) ", message)
            raise Refused(int(status[1]), message[4:]) if status else Refused(403, message)


# docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-
# github-app: exp is at most ten minutes ahead; docs.github.com/en/rest/apps/apps: a token is good for an hour.
LONGEST_JWT_SEC, TOKEN_SEC = 600, 3600
# The tolerance for a client's clock that is ahead of GitHub's clock. GitHub does not document a value.
SKEW_SEC = 60


@dataclass
class Installations:
    """The installations of GitHub Apps, by the globs under `exists: github` in sandbox.yaml.

    If no glob names an App, every App with a valid key exists and is installed everywhere.
    """

    repositories: Repositories
    organizations: Organizations
    now: Callable[[], float]
    _tokens: dict[str, Caller] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def token(self, call: Call, number: str) -> Answer:
        """Create a token for the installation."""
        granted = self._granted(self._installed(call, number))
        body = call.body if isinstance(call.body, dict) else {}
        permissions = body.get("permissions") or granted
        for name, level in permissions.items():
            if granted.get(name) not in (level, "write"):
                raise Refused(422, "The permissions requested are not granted to this installation.")
        repositories = self._requested_repositories(body.get("repositories"))
        token, expires_at = f"ghs_{secrets.token_hex(18)}", self.now() + TOKEN_SEC
        numbers = None if repositories is None else frozenset(one.id for one in repositories)
        with self._lock:
            self._tokens[token] = Caller(number, token, dict(permissions), numbers, expires_at)
        answer = {
            "token": token,
            "expires_at": documents.instant(expires_at),
            "permissions": permissions,
            "repository_selection": "all" if repositories is None else "selected",
        }
        if repositories is not None:
            answer["repositories"] = [
                {"id": one.id, "name": one.name, "full_name": one.full_name} for one in repositories
            ]
        return as_json(201, answer)

    def caller(self, call: Call) -> Caller:
        """Return the caller to whom the request's token belongs."""
        token = call.authorization.removeprefix("Bearer ").removeprefix("token ")
        with self._lock:
            known = self._tokens.get(token)
        if known is None or known.until <= self.now():
            raise Refused(401, "Bad credentials")
        return known

    def _installed(self, call: Call, number: str) -> str:
        """Return the App of the JWT, which must have the installation of this number."""
        app = self._app(call.authorization)
        listed = [one for one in self.repositories.patterns if one.startswith("apps/")]
        if listed and not any(fnmatchcase(f"apps/{app}/installations/{number}", one) for one in listed):
            raise Refused(404, "Integration not found")
        return app

    def _granted(self, app: str) -> Mapping[str, str]:
        return self.organizations.apps.get(app, DEFAULT_PERMISSIONS)

    def _requested_repositories(self, names: object) -> list[Repository] | None:
        """Return the repositories requested for a token; None for all."""
        if names is None:
            return None
        repositories = [self._of_name(str(name)) for name in names] if isinstance(names, list) else []
        existing = [one for one in repositories if one]
        if not existing or len(existing) != len(repositories):
            raise Refused(422, "There is at least one repository that does not exist or is not accessible.")
        return existing

    def _of_name(self, name: str) -> Repository | None:
        """Return the repository of this name, of any owner in sandbox.yaml or a stack.

        The sandbox does not know the owner of an installation.
        """
        return next((one for one in map(self.repositories.get, self.repositories.named(name)) if one), None)

    def _app(self, authorization: str) -> str:
        """Return the App of a JWT. The App must exist, and the JWT must be signed with its key and be valid now."""
        token = authorization.removeprefix("Bearer ")
        try:
            head, claims, signature = token.split(".")
            header, claim_values = json.loads(_decode(head)), json.loads(_decode(claims))
            app, issued, expires = str(claim_values["iss"]), float(claim_values["iat"]), float(claim_values["exp"])
            signed_text = f"{head}.{claims}".encode()
            has_valid_signature = header.get("alg") == "RS256" and signed(
                self.repositories.world, signed_text, _decode(signature), app
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Refused(401, "A JSON web token could not be decoded") from None
        if not has_valid_signature:
            raise Refused(401, "A JSON web token could not be decoded")
        if issued > self.now() + SKEW_SEC:
            claim = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
            raise Refused(401, claim)
        if expires <= self.now():
            ahead = "must be a numeric value representing the future time at which the assertion expires"
            raise Refused(401, f"'Expiration time' claim ('exp') {ahead}")
        if expires > self.now() + LONGEST_JWT_SEC + SKEW_SEC:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")
        return app


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
