"""The calls of GitHub's REST API that Apps use: tokens, runner groups, runners, workflow runs and their jobs."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cached_property, partial

from gpu_catalog import data_files

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.runners_api import PREFIX, RunnerProtocol, RunnersApi
from pulumi_sandbox.providers.github.actions.runs_api import RunsApi
from pulumi_sandbox.providers.github.actions.state import Actions
from pulumi_sandbox.providers.github.installations import Installations
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.github.repositories import Repositories, Repository
from pulumi_sandbox.providers.github.rest import NO_ACCESS, Caller, Refused, Request, Route, paged
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import World

INSTALLATION = r"/app/installations/(?P<number>\d+)"
RUNNER_RELEASE = "/repos/actions/runner/releases/latest"
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
    def _app_routes(self) -> list[Route]:
        """Return the calls without the token of an installation: those of an App, and a public one."""
        calls = self._installations
        return [
            Route("POST", f"{INSTALLATION}/access_tokens", "", "", calls.token),
            Route("GET", INSTALLATION, "", "", calls.installation),
            Route("GET", "/app", "", "", calls.app),
            Route("GET", RUNNER_RELEASE, "", "", self._runner_release),
        ]

    @cached_property
    def _routes(self) -> list[Route]:
        repositories_route = Route("GET", "/installation/repositories", "", "", self._installation_repositories)
        return [repositories_route, *RunnersApi(self.actions).routes(), *RunsApi(self.actions).routes()]

    def answer(self, call: Call) -> Answer:
        """Answer one request. Refusals have the form of GitHub."""
        try:
            if call.headers and not call.headers.get("user-agent"):
                raise Refused(403, NO_USER_AGENT)
            matches = ((route, re.fullmatch(route.pattern, call.path)) for route in self._app_routes)
            found = next(((route, match) for route, match in matches if match and route.method == call.method), None)
            if found:
                route, match = found
                self._apply_fault(route.name, call)
                answer = route.answer(call, **match.groupdict())
            else:
                self.actions.apply_time()
                is_runner_call = call.path.startswith(PREFIX)
                answer = (
                    RunnerProtocol(self.actions).answer(call) if is_runner_call else self._answer_installation(call)
                )
        except Refused as refusal:
            answer = refusal.answer()
        return _with_headers(answer, {"Date": formatdate(self.now(), usegmt=True)})

    def _answer_installation(self, call: Call) -> Answer:
        caller = self._installations.caller(call)
        answer = self._answer_route(call, caller)
        if call.method == "GET" and answer.status == 200:
            # An ETag belongs to one token: github.com/github/docs/issues/34689.
            tag = f'W/"{hashlib.sha256((caller.token + answer.body).encode()).hexdigest()}"'
            is_unchanged = call.headers.get("if-none-match") == tag
            answer = _with_headers(
                Answer(304, "", answer.kind, answer.headers) if is_unchanged else answer, {"ETag": tag}
            )
        return answer

    def _answer_route(self, call: Call, caller: Caller) -> Answer:
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
        to_document = partial(documents.repository, request.base)
        return paged(request, "repositories", rows, to_document, repository_selection=selection)

    def _runner_release(self, call: Call) -> Answer:
        latest = max(data_files.rows("runners"), key=lambda each: str(each["released"]))
        return as_json(200, documents.runner_release(str(latest["version"]), str(latest["released"])))

    def _apply_fault(self, name: str, call: Call) -> None:
        """Refuse the call if a planted fault applies. A message may begin with the status, such as 502."""
        if fault := self.world.take_fault("refuse", f"github:rest/{name}", call.path):
            message = fault.message or f"{NO_ACCESS} (a planted fault)"
            status = re.match(r"([345]\d\d) ", message)
            raise Refused(int(status[1]), message[4:]) if status else Refused(403, message)


def _with_headers(answer: Answer, headers: dict[str, str]) -> Answer:
    return Answer(answer.status, answer.body, answer.kind, {**answer.headers, **headers})
