"""Registers one runner for one job at GitHub, with a token that has only the permissions for it.

A machine does not wait for a random time before its first request. GitHub accepts 180 registrations a minute, each
machine needs one, and machines do not boot in the same second. Such a wait would cost paid GPU time, and would not
spread 500 machines. Instead, a machine that meets the rate limit waits after the answer (retry.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from ..clock import Clock
from ..config import GithubConfig, RunnerConfig
from ..http import Answer, ask
from ..outcomes import AgentExit
from .api import GithubApi, Reply, app_jwt

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


@dataclass(frozen=True)
class Registration:
    """A runner that is registered at GitHub and has not started yet."""

    runner_id: int
    jitconfig: str = field(repr=False)
    """The credentials with which the runner starts, base64."""


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
