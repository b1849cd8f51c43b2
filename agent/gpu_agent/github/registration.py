"""Registers one runner for one job at GitHub, with a token that has only the permissions for it.

A machine does not wait for a random time before its first request. GitHub accepts 180 registrations a minute, each
machine needs one, and machines do not boot in the same second. Such a wait would cost paid GPU time, and would not
spread 500 machines. Instead, a machine that meets the rate limit waits after the answer (retry.py).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from .. import openssl
from ..clock import Clock
from ..config import GithubConfig, RunnerConfig
from ..http import LOOPBACK, Answer, Unreachable, ask, parsed
from ..outcomes import AgentExit
from ..retry import RetryableError, retry_after_sec, retry_until, server_unix

# A JWT is issued a minute in the past, so only a clock difference of more than half a minute explains a refusal.
_SKEW_SEC = 30
_OTHER_NAMES = 3
# "Runner names can only be 64 characters in length": actions/runner, pull request 1710.
_NAME_CHARACTERS = 64
_GROUP_PAGES = 100
_GROUPS_PER_PAGE = 100
# A repository has no runner groups. Its runners belong to the default group, whose id is always 1.
_DEFAULT_GROUP = 1
# Some GitHub servers may not know a new token yet: octokit/auth-app.js@010203fa:src/hook.ts repeats for 5 seconds.
_FRESH_SEC = 5
# How long to wait for the job of a runner that GitHub refuses to remove. GitHub refuses if it has just assigned a job.
_LATE_JOB_SEC = 60.0
_SHOWN = 20

_HINTS = {
    301: "the owner or the repository was renamed",
    307: "the owner or the repository was renamed",
    401: "the App's key does not belong to the App's id, or the key was deleted",
    403: "the App needs the permission 'Self-hosted runners: Read and write' (for one repository 'Administration: Read "
    "and write'), and its installation must have accepted it",
    404: "there is no such installation, organization or repository for this App",
    409: "every other name that was tried is taken too",
    422: "the request is invalid, or exceeds the permissions of the App's installation",
}


class Run(NamedTuple):
    """One attempt of a workflow run, as GitHub's variables name it."""

    repository: str
    run_id: str
    run_attempt: str


@dataclass(frozen=True)
class Registration:
    """A runner that is registered at GitHub and has not started yet."""

    runner_id: int
    jitconfig: str = field(repr=False)
    """The credentials with which the runner starts, base64."""
    usd_per_hour: float | None = None
    """The catalog price of this machine; None without a runner manager, which knows it, or if it is not published."""
    market: str = ""
    """The market of this machine, such as spot; empty without a runner manager."""
    run: Run | None = None
    """The only run whose jobs the machine accepts; None if it accepts every job."""


class _Token(NamedTuple):
    value: str
    fresh_until: float
    """The time until which a 401 may be temporary."""


class Github:
    """GitHub as the App, for one organization or one repository.

    The object keeps the App's key but no token. Each operation creates its own token, which is valid for an hour.
    """

    late_job_sec = _LATE_JOB_SEC

    def __init__(self, config: GithubConfig, key: bytes, clock: Clock, ask: Callable[..., Answer] = ask) -> None:
        if not 1 <= len(config.labels) <= 100:
            # GitHub has these limits. They are checked here because a rehearsal never asks GitHub for a runner.
            raise AgentExit("no-config", f"github.labels: expected 1 to 100 labels, got {len(config.labels)}")
        self._config = config
        self._key = key
        self._clock = clock
        self._api = GithubApi(config.api_url, clock, ask)
        owner = quote(config.owner, safe="")
        repository = quote(config.repository, safe="")
        self._runners = (
            f"/repos/{owner}/{repository}/actions/runners" if repository else f"/orgs/{owner}/actions/runners"
        )
        self._groups = f"/orgs/{owner}/actions/runner-groups"
        # The smallest permission that creates a JIT configuration (docs.github.com, "Permissions required for GitHub
        # Apps"). "read" lists runners but creates none, and for a repository only administration includes runners. With
        # the repository name the token covers no other repository of the App. An organization's permission covers no
        # repository.
        self._token_request: dict[str, Any] = (
            {"permissions": {"administration": "write"}, "repositories": [config.repository]}
            if repository
            else {"permissions": {"organization_self_hosted_runners": "write"}}
        )
        self.skew_sec = 0.0
        """Seconds by which GitHub's clock is ahead of the machine's; 0 unless GitHub refused a token because of the
        clock.
        """

    def rehearse(self, deadline: float) -> None:
        """Do all steps of a registration except the last one. Raises AgentExit with the refusal of GitHub."""
        token = self._token(deadline)
        if self._config.repository:
            self._expect(200, self._call("GET", f"{self._runners}?per_page=1", token, deadline), "the runners")
        else:
            self._group(token, deadline)

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:
        """Register one runner for one job under `name`, or under `name` with a suffix if the name is taken.

        A name may be taken by an attempt whose answer was lost. GitHub removes such a runner after a day, because it
        never connects (docs.github.com, "Communicating with self-hosted runners").

        Raises:
            AgentExit: "refused", "rate-limited" or "github-unreachable", before the deadline.
        """
        token = self._token(deadline)
        group = _DEFAULT_GROUP if self._config.repository else self._group(token, deadline)
        for attempt in range(1 + _OTHER_NAMES):
            suffix = f"-{attempt + 1}" if attempt else ""
            payload = {
                "name": name[: _NAME_CHARACTERS - len(suffix)] + suffix,
                "runner_group_id": group,
                "labels": self._config.labels,
                "work_folder": runner.work_folder,
            }
            path = f"{self._runners}/generate-jitconfig"
            reply = self._call("POST", path, token, deadline, payload)
            if reply.status != 409:
                break
        self._expect(201, reply, "a runner's registration")
        runner_id, jitconfig = _map(reply.value, "runner").get("id"), reply.value.get("encoded_jit_config")
        if not isinstance(runner_id, int) or not isinstance(jitconfig, str) or not jitconfig:
            raise AgentExit(
                "refused", "GitHub's answer to a runner's registration has no runner.id or encoded_jit_config"
            )
        return Registration(runner_id, jitconfig)

    def remove(self, runner_id: int, deadline: float) -> bool:
        """Remove a registration. Return True if GitHub no longer has the runner. Raises no AgentExit except
        `stopped`.
        """
        try:
            token = self._token(deadline)
            reply = self._call("DELETE", f"{self._runners}/{runner_id}", token, deadline)
        except AgentExit as ended:
            if ended.end.reason == "stopped":
                raise
            return False
        return reply.status in (204, 404)

    def forget(self) -> None:
        """Drop the App's key. No request is possible after that."""
        self._key = b""

    def _token(self, deadline: float) -> _Token:
        """Return an installation token with only the permissions that a registration needs."""
        reply = self._mint(deadline)
        if reply.status == 401:
            skew_sec = reply.server_unix - self._clock.unix()
            if abs(skew_sec - self.skew_sec) > _SKEW_SEC:
                self.skew_sec = skew_sec
                reply = self._mint(deadline)
        self._expect(201, reply, "a token of the App's installation")
        # The permission to read metadata is part of every token and cannot be omitted.
        requested = {**self._token_request["permissions"], "metadata": "read"}
        unrequested = [
            f"{name}: {level}"
            for name, level in _map(reply.value, "permissions").items()
            if requested.get(name) != level
        ]
        if self._config.repository:
            names = [each.get("name") for each in _maps(reply.value, "repositories")]
            unrequested += [f"repository {name}" for name in names if name != self._config.repository]
        # An organization's token may list selected repositories (docs.github.com, "Create an installation access token
        # for an app"). They are not checked, because its permission covers no repository.
        if unrequested:
            raise AgentExit("refused", f"GitHub's token has more permissions than requested: {_listed(unrequested)}")
        token = reply.value.get("token")
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise AgentExit("refused", "GitHub's answer to a request for a token does not contain a usable token")
        return _Token(token, self._clock.now() + _FRESH_SEC)

    def _call(
        self, method: str, path: str, token: _Token, deadline: float, payload: dict[str, Any] | None = None
    ) -> Reply:
        return self._api.call(method, path, lambda: token.value, deadline, payload, fresh_until=token.fresh_until)

    def _mint(self, deadline: float) -> Reply:
        config = self._config
        return self._api.call(
            "POST",
            f"/app/installations/{config.installation_id}/access_tokens",
            lambda: app_jwt(config.app_id, self._key, self._clock.unix() + self.skew_sec),
            deadline,
            self._token_request,
        )

    def _group(self, token: _Token, deadline: float) -> int:
        """Return the id of the runner group with exactly the configured name."""
        names: list[str] = []
        for page in range(1, _GROUP_PAGES + 1):
            path = f"{self._groups}?per_page={_GROUPS_PER_PAGE}&page={page}"
            reply = self._call("GET", path, token, deadline)
            self._expect(200, reply, "the runner groups")
            groups = _maps(reply.value, "runner_groups")
            for group in groups:
                if group.get("name") == self._config.runner_group and isinstance(group.get("id"), int):
                    return int(group["id"])
            names += [str(group.get("name")) for group in groups]
            if len(groups) < _GROUPS_PER_PAGE:
                break
        wanted, owner = self._config.runner_group, self._config.owner
        raise AgentExit("refused", f"{owner} has no runner group named {wanted!r}, only {_listed(names) or 'none'}")

    def _expect(self, status: int, reply: Reply, what: str) -> None:
        if reply.status == status:
            return
        text = f"GitHub answered {reply.status} to a request for {what}: {reply.message}"
        if reply.status in _HINTS:
            text += f"; {_HINTS[reply.status]}"
        if reply.status == 404:
            number = self._config.installation_id
            text += f"; sent as installation {number} (gpu-ci:site.github.runnerApp.installationId)"
        if reply.status == 401 and self.skew_sec:
            text += f"; the machine's clock is off by {-self.skew_sec:+.0f} s, which the second request allowed for"
        raise AgentExit("refused", text)


def _map(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _maps(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


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
