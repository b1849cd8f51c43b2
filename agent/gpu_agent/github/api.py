"""Calls GitHub's REST API, and repeats a call if another attempt may succeed. Returns the status and the JSON."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import openssl
from ..clock import Clock
from ..http import LOOPBACK, Answer, Unreachable, ask, parsed
from ..outcomes import AgentExit
from ..retry import RetryableError, retry_after_sec, retry_until, server_unix

URL_VARIABLE = "GPU_AGENT_GITHUB_URL"
"""The environment variable that replaces the configured address, because the sandbox emulates GitHub."""

# docs.github.com, "API Versions".
_VERSION = "2022-11-28"
# GitHub ends a request itself after 10 seconds (docs.github.com, "Troubleshooting the REST API"). A connection that is
# silent for much longer is lost, and a new one may work.
_ATTEMPT_SEC = 30
# If a secondary limit names no time, wait at least one minute (docs.github.com, "Rate limits for the REST API").
_SECONDARY_SEC = 60
_MESSAGE_CHARACTERS = 300


class Reply(NamedTuple):
    """The last answer from GitHub."""

    status: int
    value: Any
    """The JSON of the answer; None without a body."""
    message: str
    """GitHub's message in a refusal, without secrets."""
    server_unix: float
    """Seconds since 1970 by GitHub's clock."""


class GithubApi:
    """GitHub's REST API at one address: api.github.com, or https://<host>/api/v3 of an Enterprise Server."""

    def __init__(self, url: str, clock: Clock, ask: Callable[..., Answer] = ask) -> None:
        self._url = _checked(os.environ.get(URL_VARIABLE) or url)
        self._clock = clock
        self._ask = ask

    def call(
        self,
        method: str,
        path: str,
        bearer: Callable[[], str],
        deadline: float,
        payload: dict[str, Any] | None = None,
        *,
        fresh_until: float = 0,
    ) -> Reply:
        """Send the request, and repeat it while another attempt may succeed.

        `bearer` returns the token of each attempt, because a token may expire while its request waits. Until
        `fresh_until` a 401 may mean that some GitHub servers do not know the token yet. Raises
        AgentExit("github-unreachable") or AgentExit("rate-limited") if the deadline leaves no time for another attempt.
        """

        def attempt() -> Reply:
            reply = self._once(method, path, bearer(), deadline, payload)
            if reply.status == 401 and self._clock.now() < fresh_until:
                raise RetryableError(
                    AgentExit("refused", f"GitHub answered 401 to a token that it has just issued: {reply.message}")
                )
            return reply

        return retry_until(attempt, deadline=deadline, clock=self._clock)

    def _once(self, method: str, path: str, token: str, deadline: float, payload: dict[str, Any] | None) -> Reply:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "User-Agent": "gpu-ci-agent",
            "X-GitHub-Api-Version": _VERSION,
        }
        if payload is not None:
            headers["Content-Type"] = "application/json"
        # The query is omitted from messages, as in http.py.
        what = f"{method} {self._url}{path.partition('?')[0]}"
        try:
            answer = self._ask(
                method,
                f"{self._url}{path}",
                headers=headers,
                body=None if payload is None else json.dumps(payload).encode(),
                deadline=min(deadline, self._clock.now() + _ATTEMPT_SEC),
                clock=self._clock,
            )
        except Unreachable as error:
            raise RetryableError(AgentExit("github-unreachable", str(error))) from None
        value, message = _read(answer, token)
        wait_sec = _limit_sec(answer, message, self._clock)
        if wait_sec is not None:
            raise RetryableError(AgentExit("rate-limited", f"{what}: answered {answer.status}: {message}"), wait_sec)
        if answer.status >= 500:
            after_sec = retry_after_sec(answer, self._clock)
            raise RetryableError(
                AgentExit("github-unreachable", f"{what}: answered {answer.status}: {message}"), after_sec
            )
        if answer.status in (200, 201) and not isinstance(value, dict):
            # A portal or proxy in front of GitHub has answered.
            raise RetryableError(
                AgentExit("github-unreachable", f"{what}: answered {answer.status} without a JSON object")
            )
        return Reply(answer.status, value, message, server_unix(answer, self._clock))


def _checked(url: str) -> str:
    """Return the address without a final slash. It must be https or this machine, because the App's token is sent to
    it.
    """
    try:
        where = parsed(url)
    except ValueError as error:
        raise AgentExit("no-config", f"github.api_url: {error}") from None
    if where.scheme != "https" and where.hostname not in LOOPBACK:
        raise AgentExit("no-config", f"github.api_url: expected https, got {where.scheme}://{where.hostname}")
    if where.query or where.fragment:
        raise AgentExit("no-config", f"github.api_url: expected nothing after the path {where.path}")
    return url.rstrip("/")


def _read(answer: Answer, token: str) -> tuple[Any, str]:
    """Return the JSON of an answer, or None, and its message without the token."""
    try:
        value = json.loads(answer.body) if answer.body else None
    except (ValueError, RecursionError):
        value = None
    text = value.get("message") if isinstance(value, dict) else None
    if not isinstance(text, str):
        return value, "no message"
    text = "".join(each if each.isprintable() else " " for each in text.replace(token, "…"))
    return value, text if len(text) <= _MESSAGE_CHARACTERS else f"{text[:_MESSAGE_CHARACTERS]}…"


def _limit_sec(answer: Answer, message: str, clock: Clock) -> float | None:
    """Return the seconds that a rate limit requests to wait, or None if the answer is not a rate limit.

    Either limit may answer 403 or 429 (docs.github.com, "Rate limits for the REST API"). Retry-After counts first, then
    the reset of an exhausted hourly budget, then one minute.
    """
    headers = answer.headers
    exhausted = headers.get("x-ratelimit-remaining") == "0"
    secondary = "secondary rate limit" in message.lower()
    limited = answer.status == 429 or (answer.status == 403 and ("retry-after" in headers or exhausted or secondary))
    if not limited:
        return None
    if "retry-after" in headers:
        return retry_after_sec(answer, clock)
    reset = headers.get("x-ratelimit-reset", "")
    if exhausted and reset.isascii() and reset.isdecimal():
        return max(float(reset) - server_unix(answer, clock), 0)
    return _SECONDARY_SEC


# The token is issued 60 seconds in the past to allow for clock differences, and expires within 10 minutes
# (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App"). Five minutes keep a fast clock below that
# limit.
ISSUED_BEFORE_SEC = 60
EXPIRES_AFTER_SEC = 300

# The signature length of a 2048-bit RSA key, which GitHub creates. Signatures of other key types are shorter.
_SIGNATURE_BYTES = 256


def app_jwt(app_id: str, key: bytes, now: float) -> str:
    """Return a JWT for the App, valid from a minute before `now` to five minutes after it.

    `now` is in seconds since 1970 by GitHub's clock. Raises AgentExit("refused") if `key` is not an RSA private key in
    PEM form, and AgentExit("no-tool") without openssl.
    """
    claims = {"iat": int(now) - ISSUED_BEFORE_SEC, "exp": int(now) + EXPIRES_AFTER_SEC, "iss": app_id}
    signed = f"{_encoded_json({'alg': 'RS256', 'typ': 'JWT'})}.{_encoded_json(claims)}"
    return f"{signed}.{_encoded(_signature(signed.encode(), key))}"


def _encoded_json(value: dict[str, object]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(content: bytes) -> str:
    """Return base64url without padding, as defined in RFC 7515."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _signature(content: bytes, key: bytes) -> bytes:
    """Return the RSASSA-PKCS1-v1_5 signature over SHA-256."""
    no_key = AgentExit(
        "refused", "the secret does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"
    )
    if not 0 < len(key) <= openssl.KEY_LIMIT_BYTES:
        raise no_key
    # An empty passphrase, because openssl would prompt for one.
    arguments = ["dgst", "-sha256", "-sign", openssl.KEY, "-passin", "pass:"]
    signature = openssl.run(arguments, content, key, "signs for the GitHub App")
    if len(signature) < _SIGNATURE_BYTES:
        raise no_key
    return signature
