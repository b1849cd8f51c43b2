"""GitHub's API as far as an App's machines ask it: a token for an installation, runner groups, and runners to be."""

from __future__ import annotations

import base64
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.organizations import UNLISTED, Organizations
from pulumi_sandbox.providers.github.permissions import NO_ACCESS
from pulumi_sandbox.providers.github.types import same_name, text_of
from pulumi_sandbox.providers.github.world import DEFAULT_GROUP
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.rsa_key import signed
from pulumi_sandbox.world.store import Record, World

RUNNER = "github:rest/runner:Runner"
DOCUMENTATION = "https://docs.github.com/rest"
# docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-
# github-app: exp is at most ten minutes ahead; docs.github.com/en/rest/apps/apps: a token is good for an hour.
LONGEST_JWT_SEC, TOKEN_SEC = 600, 3600
# How far a machine's clock may be ahead of GitHub's before its iat is in the future. GitHub does not say how far.
SKEW_SEC = 60
# docs.github.com/en/rest/actions/self-hosted-runners, generate-jitconfig: 1 to 100 labels.
MOST_LABELS = 100


class _Refused(Exception):  # noqa: N818 - it is an answer
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class _Token:
    permissions: dict[str, str]
    until: float


@dataclass
class GithubAppApi:
    """What it answers. `patterns` are what sandbox.yaml lists under exists: github; where none of them is of an App,
    every App that has its key is there, and installed wherever it says. An App that `organizations` lists has a key of
    its own, and every other has the world's."""

    world: World
    patterns: tuple[str, ...] = ()
    organizations: Organizations = field(default_factory=Organizations)
    now: Callable[[], float] = time.time
    _tokens: dict[str, _Token] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, call: Call) -> Answer:
        """One request; refusals have GitHub's form."""
        owner = r"(?P<owner>(?:orgs/[^/]+|repos/[^/]+/[^/]+))"
        routes: list[tuple[str, str, Callable[..., Answer]]] = [
            ("POST", r"/app/installations/(?P<number>\d+)/access_tokens", self._token),
            ("GET", r"/orgs/(?P<owner>[^/]+)/actions/runner-groups", self._groups),
            ("POST", rf"/{owner}/actions/runners/generate-jitconfig", self._jitconfig),
            ("GET", rf"/{owner}/actions/runners", self._runners),
            ("DELETE", rf"/{owner}/actions/runners/(?P<number>\d+)", self._remove),
        ]
        try:
            for method, pattern, answer in routes:
                if method == call.method and (found := re.fullmatch(pattern, call.path)):
                    planted = self.world.take("refuse", f"github:rest/{answer.__name__.strip('_')}", call.path)
                    if planted:
                        raise _Refused(403, planted.message or f"{NO_ACCESS} (a planted fault)")
                    return answer(call, **found.groupdict())
            raise _Refused(404, "Not Found")
        except _Refused as refused:
            return as_json(
                refused.status,
                {"message": refused.message, "documentation_url": DOCUMENTATION, "status": str(refused.status)},
            )

    # -- the App ------------------------------------------------------------------------------------------------------

    def _token(self, call: Call, number: str) -> Answer:
        app = self._app(call.authorization)
        if not self._listed(f"apps/{app}/installations/{number}"):
            raise _Refused(404, "Not Found")
        body = call.body if isinstance(call.body, dict) else {}
        granted = self.organizations.apps.get(app, UNLISTED)
        asked = body.get("permissions") or granted
        for name, level in asked.items():
            if granted.get(name) not in (level, "write"):
                raise _Refused(422, "The permissions requested are not granted to this installation.")
        token = f"ghs_{secrets.token_hex(18)}"
        with self._lock:
            self._tokens[token] = _Token(dict(asked), self.now() + TOKEN_SEC)
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now() + TOKEN_SEC))
        answer = {"token": token, "expires_at": expires, "permissions": asked, "repository_selection": "all"}
        return as_json(201, answer)

    def _app(self, authorization: str) -> str:
        """Whose JWT it is: that of an App there is, signed with its key, and of now."""
        token = authorization.removeprefix("Bearer ")
        try:
            head, claims, signature = token.split(".")
            header, claimed = json.loads(_decoded(head)), json.loads(_decoded(claims))
            app, issued, expires = str(claimed["iss"]), float(claimed["iat"]), float(claimed["exp"])
            key = app if app in self.organizations.apps else ""
            text = f"{head}.{claims}".encode()
            own = header.get("alg") == "RS256" and signed(self.world, text, _decoded(signature), key)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _Refused(401, "A JSON web token could not be decoded") from None
        if not self._listed(f"apps/{app}/installations/*"):
            raise _Refused(404, "Integration not found")
        if not own:
            raise _Refused(401, "A JSON web token could not be decoded")
        if issued > self.now() + SKEW_SEC:
            claim = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
            raise _Refused(401, claim)
        if expires <= self.now():
            ahead = "must be a numeric value representing the future time at which the assertion expires"
            raise _Refused(401, f"'Expiration time' claim ('exp') {ahead}")
        if expires > self.now() + LONGEST_JWT_SEC + SKEW_SEC:
            raise _Refused(401, "'Expiration time' claim ('exp') is too far in the future")
        return app

    def _listed(self, path: str) -> bool:
        """Whether the file lists the installation, or lists none; a path that ends in * asks for any of an App."""
        of_apps = [one for one in self.patterns if one.startswith("apps/")]
        first = path.removesuffix("*")
        return not of_apps or any(fnmatchcase(path, one) or (first != path and _of_app(one, first)) for one in of_apps)

    def _allowed(self, call: Call, owner: str, level: str) -> None:
        """The token is one, still good, and given for this."""
        token = call.authorization.removeprefix("Bearer ").removeprefix("token ")
        with self._lock:
            known = self._tokens.get(token)
        if known is None or known.until <= self.now():
            raise _Refused(401, "Bad credentials")
        name = "administration" if owner.startswith("repos/") else "organization_self_hosted_runners"
        if known.permissions.get(name) not in (level, "write"):
            raise _Refused(403, NO_ACCESS)

    # -- runners ------------------------------------------------------------------------------------------------------

    def _groups(self, call: Call, owner: str) -> Answer:
        self._allowed(call, f"orgs/{owner}", "read")
        first = {"id": 1, "name": DEFAULT_GROUP, "visibility": "all", "default": True}
        made = [
            {
                "id": int(one.id),
                "name": text_of(one.outputs, "name"),
                "visibility": text_of(one.outputs, "visibility"),
                "default": False,
                "allows_public_repositories": one.outputs.get("allowsPublicRepositories") is True,
            }
            for one in self.world.find(types.RUNNER_GROUP)
            if f"/orgs/{owner}/".lower() in text_of(one.outputs, "runnersUrl").lower()
        ]
        rows = [first, *made]
        return as_json(200, {"total_count": len(rows), "runner_groups": _page(rows, call)})

    def _jitconfig(self, call: Call, owner: str) -> Answer:
        self._allowed(call, owner, "write")
        body = call.body if isinstance(call.body, dict) else {}
        name, group, labels = body.get("name"), body.get("runner_group_id"), body.get("labels")
        if not isinstance(name, str) or not name or not isinstance(group, int) or not isinstance(labels, list):
            raise _Refused(422, "Invalid request.\n\nname, runner_group_id and labels are required.")
        if not 1 <= len(labels) <= MOST_LABELS:
            raise _Refused(422, f"Invalid request.\n\nlabels must have 1 to {MOST_LABELS} entries.")
        if group != 1 and not any(int(one.id) == group for one in self.world.find(types.RUNNER_GROUP)):
            raise _Refused(404, "Not Found")
        with self.world.transaction():
            taken = [one for one in self.world.find(RUNNER) if one.id.startswith(f"{owner}/")]
            if any(same_name(one.name, name) for one in taken):
                # The words: github.com/runs-on/runs-on/issues/33.
                raise _Refused(409, f"Already exists - A runner with the name {name} already exists.")
            number = 1 + max((int(one.id.rpartition("/")[2]) for one in self.world.find(RUNNER)), default=0)
            runner = {
                "id": number,
                "name": name,
                "os": "unknown",
                "status": "offline",
                "busy": False,
                "runner_group_id": group,
                "labels": [{"id": 0, "name": str(label), "type": "custom"} for label in labels],
            }
            self.world.insert(Record(RUNNER, f"{owner}/{number}", name, "", {}, runner, "api"))
        settings = {".runner": base64.b64encode(json.dumps({"AgentName": name}).encode()).decode()}
        blob = base64.b64encode(json.dumps(settings).encode()).decode()
        return as_json(201, {"runner": runner, "encoded_jit_config": blob})

    def _runners(self, call: Call, owner: str) -> Answer:
        self._allowed(call, owner, "read")
        name = call.query.get("name", [""])[-1]
        rows = [one.outputs for one in self.world.find(RUNNER) if one.id.startswith(f"{owner}/")]
        rows = [one for one in rows if not name or one["name"] == name]
        return as_json(200, {"total_count": len(rows), "runners": _page(rows, call)})

    def _remove(self, call: Call, owner: str, number: str) -> Answer:
        self._allowed(call, owner, "write")
        if not self.world.delete(RUNNER, f"{owner}/{number}"):
            raise _Refused(404, "Not Found")
        return Answer(204, "", "application/text")


def _of_app(pattern: str, first: str) -> bool:
    """Whether a listed installation is one of the App whose paths begin so."""
    return fnmatchcase(first, pattern.rpartition("/")[0] + "/")


def _page(rows: Iterable[Any], call: Call) -> list[Any]:
    """docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api: 30 a page, at most 100."""
    size = max(1, min(int(call.query.get("per_page", ["30"])[-1]), 100))
    at = (int(call.query.get("page", ["1"])[-1]) - 1) * size
    return list(rows)[at : at + size]


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
