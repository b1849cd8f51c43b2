"""The installation token of the manager's GitHub App. It is created with the App's key and renewed before its hour
ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from gpu_ci.secret_manager import aws_secret

from ..ports import Refused

# The token is issued 60 seconds in the past to allow for clock differences, and expires within 10 minutes
# (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App").
_ISSUED_BEFORE_SEC, _EXPIRES_AFTER_SEC = 60, 300
# A token is valid for one hour ("Generating an installation access token for a GitHub App").
_LIFE_SEC, _RENEW_BEFORE_SEC = 3600.0, 300.0
# For this time after its creation, some GitHub servers may not know a token: octokit/auth-app.js@010203fa:src/hook.ts
# repeats requests for 5 s.
_FRESH_SEC = 5.0


@dataclass(frozen=True)
class App:
    """The manager's GitHub App and its installation in the organization."""

    id: int
    installation_id: int
    key_file: Path | str
    """The file of the App's private key in PEM form, or the ARN of a secret in AWS Secrets Manager that has the key.
    It is read for each token, so a new key needs no restart."""

    def signed(self, claims: dict[str, Any]) -> str:
        """Return a JWT with these claims.

        Raises:
            Refused: The file or the secret has no key that can sign. The text does not contain the key.
            Unavailable: AWS did not answer.
        """
        try:
            key = _of_secret(str(self.key_file)) if aws_secret(str(self.key_file)) else Path(self.key_file).read_bytes()
        except OSError as error:
            raise Refused(f"{self.key_file}: the App's key cannot be read: {error.strerror}") from None
        try:
            return jwt.encode(claims, key, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError):
            problem = "does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"
            raise Refused(f"{self.key_file}: {problem}") from None


def _of_secret(arn: str) -> bytes:
    """Return the text of a secret. Permission: secretsmanager:GetSecretValue. Raises Unavailable or Refused."""
    # The errors of a region's service, which the supplier of EC2 has too.
    from ..suppliers.ec2.api import Clients, converted_errors

    with converted_errors(f"the secret {arn}"):
        return str(
            Clients()(arn.split(":")[3], "secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
        ).encode()


class Token(NamedTuple):
    value: str
    number: int
    """A counter of tokens. ETags of another token cannot be used (github/docs#34689)."""


@dataclass
class _Created:
    token: Token
    at: float
    renew_at: float


@dataclass
class InstallationToken:
    """Creates tokens, one at a time, for all threads."""

    app: App
    permissions: dict[str, str]
    """The permissions of each token. The App may have more."""
    post: Callable[[str, str, dict[str, Any]], Any]
    """Sends a request to GitHub with path, bearer and body. Returns the JSON of a 201 answer."""
    github_unix: Callable[[], float]
    monotonic: Callable[[], float]
    _created: _Created | None = field(default=None, repr=False)
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self) -> Token:
        """Return a token that is valid for at least five minutes. Raises Unavailable or Refused."""
        with self._lock:
            if self._created is None or self.monotonic() >= self._created.renew_at:
                self._created = self._create()
            return self._created.token

    def drop_refused(self, token: Token) -> bool:
        """Drop a token to which GitHub answered 401, unless it is new. Return True if another token may work."""
        with self._lock:
            if self._created is None or self._created.token != token:
                return True
            if self.monotonic() - self._created.at < _FRESH_SEC:
                return False
            self._created = None
            return True

    def _create(self) -> _Created:
        at = self.monotonic()
        path = f"/app/installations/{self.app.installation_id}/access_tokens"
        answer = self.post(path, self.jwt(), {"permissions": self.permissions})
        value = answer.get("token") if isinstance(answer, dict) else None
        if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
            raise Refused("GitHub's answer to a request for an installation token does not contain a usable token")
        self._count += 1
        return _Created(Token(value, self._count), at, at + _LIFE_SEC - _RENEW_BEFORE_SEC)

    def jwt(self) -> str:
        """Return the App's own token. No error contains the key."""
        now = int(self.github_unix())
        issued, expires = now - _ISSUED_BEFORE_SEC, now + _EXPIRES_AFTER_SEC
        return self.app.signed({"iat": issued, "exp": expires, "iss": str(self.app.id)})
