"""GitHub Apps, their installations and the tokens of the installations."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.organizations import DEFAULT_PERMISSIONS, Organizations
from pulumi_sandbox.providers.github.repositories import Repositories, Repository
from pulumi_sandbox.providers.github.rest import Caller, Refused
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.rsa_key import signed

# docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-
# github-app: exp is at most ten minutes ahead; docs.github.com/en/rest/apps/apps: a token is good for an hour.
LONGEST_JWT_SEC, TOKEN_SEC = 600, 3600
# The tolerance for a client's clock that is ahead of GitHub's clock. GitHub does not document a value.
SKEW_SEC = 60
# The owner of Apps if neither sandbox.yaml nor a stack names an organization.
_NO_OWNER = "example-org"


@dataclass
class Installations:
    """The installations of GitHub Apps, by the globs under `exists: github` in sandbox.yaml.

    If no glob names an App, every App with a valid key exists and is installed everywhere. An App in `organizations`
    has its own key. Every other App uses the key of the world.
    """

    repositories: Repositories
    organizations: Organizations
    now: Callable[[], float]
    _tokens: dict[str, Caller] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def app(self, call: Call) -> Answer:
        """Return the App of the JWT."""
        app = self._app(call.authorization)
        return as_json(200, documents.app(app, self._owner(), self._granted(app)))

    def installation(self, call: Call, number: str) -> Answer:
        """Return one installation of the App of the JWT."""
        app = self._installed(call, number)
        return as_json(200, documents.installation(app, number, self._owner(), self._granted(app)))

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
        if not self._listed(f"apps/{app}/installations/{number}"):
            raise Refused(404, "Not Found")
        return app

    def _granted(self, app: str) -> Mapping[str, str]:
        return self.organizations.apps.get(app, DEFAULT_PERMISSIONS)

    def _owner(self) -> str:
        """Return the owner of an App: the first owner of a known repository."""
        return next((full_name.partition("/")[0] for full_name in self.repositories.named("any")), _NO_OWNER)

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
            key = app if app in self.organizations.apps else ""
            signed_text = f"{head}.{claims}".encode()
            has_valid_signature = header.get("alg") == "RS256" and signed(
                self.repositories.world, signed_text, _decode(signature), key
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Refused(401, "A JSON web token could not be decoded") from None
        if not self._listed(f"apps/{app}/installations/*"):
            raise Refused(404, "Integration not found")
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

    def _listed(self, path: str) -> bool:
        """Return True if sandbox.yaml lists the installation, or no installation at all.

        A path that ends in * matches any installation of an App.
        """
        app_patterns = [one for one in self.repositories.patterns if one.startswith("apps/")]
        prefix = path.removesuffix("*")
        return not app_patterns or any(
            fnmatchcase(path, one) or (prefix != path and _matches_app(one, prefix)) for one in app_patterns
        )


def _matches_app(pattern: str, first: str) -> bool:
    """Return True if a listed installation belongs to the App with this path prefix."""
    return fnmatchcase(first, pattern.rpartition("/")[0] + "/")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
