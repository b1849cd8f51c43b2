"""The GitHub Apps of a stack file: the permissions that each needs, and the manifest that registers it at GitHub."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_ci.cli.output import InputError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.stack.requirements import is_public
from gpu_ci.stack.site import GITHUB, SITE, app_entries

_TIMEOUT_SEC = 20
_RUNNERS = {"organization_self_hosted_runners": "write"}
# The permission for secrets and for variables of each scope (docs/guides/github.md, "Apps and their permissions").
_OF_SCOPE = {
    "repository": ("secrets", "actions_variables"),
    "environment": ("environments", "environments"),
    "organization": ("organization_secrets", "organization_actions_variables"),
    "dependabot": ("dependabot_secrets", "dependabot_secrets"),
}
OPTIONAL = {"managerApp": {"checks": "write"}}
"""Permissions that no App gets by itself: with this one, a commit says that the GPU made its job fail."""
DUTIES = {
    "app": "creates the runner group, secrets, variables and rules of the stack",
    "runnerApp": "registers the runners of clusters",
    "managerApp": "reads the queue of jobs, and registers the runners of machines",
}
"""The entries of gpu-ci:site.github that are Apps, and what each App does."""


@dataclass(frozen=True)
class App:
    """A GitHub App that a stack file names."""

    key: str
    """The entry of gpu-ci:site.github: app, runnerApp, managerApp or poolApps.<pool>."""
    duty: str
    secret: str
    """The secret for its private key, as projects/<project>/secrets/<name>."""
    permissions: Mapping[str, str]

    def manifest(self, name: str, listener: str) -> dict[str, Any]:
        """Return the manifest of the App.

        docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest has the fields.

        Args:
            name: The name of the App. It is cut at 34 characters, GitHub's limit, and must be unique on GitHub. GitHub
                lets the user change it.
            listener: The address of the page on this computer, to which GitHub sends the browser back.
        """
        return {
            "name": name[:34],
            "description": f"gpu-ci: {self.duty}",
            "url": "https://github.com",
            "public": False,
            "hook_attributes": {"url": "https://example.com", "active": False},
            "redirect_url": f"{listener}created/{self.key}",
            "setup_url": listener,
            "default_permissions": {"metadata": "read", **self.permissions},
            "default_events": [],
        }


def apps_of(file: StackFile, only: Collection[str] = ()) -> tuple[str, list[App]]:
    """Return the organization of a stack file and its Apps, or those in `only`. Raise InputError for a missing App."""
    site = file.values[SITE]
    github = site.get("github") if isinstance(site, Mapping) else None
    entries = app_entries(github)
    if not isinstance(github, Mapping) or not entries:
        raise InputError(
            f"{file.name}: {SITE}.github names no GitHub App",
            expected=f"at least one of {', '.join(DUTIES)} with a privateKey",
            hint="gpu-ci init --organization … writes them",
        )
    if missing := [key for key in only if key not in entries]:
        raise InputError(f"{file.name}: {SITE}.github has no {missing[0]}", got=", ".join(entries))
    permissions = {
        "app": _administration(file.values[GITHUB]),
        "managerApp": {
            **_RUNNERS,
            "actions": "write",
            **({"pull_requests": "read"} if is_public(file.values[GITHUB]) else {}),
        },
    }
    apps = [
        App(
            path,
            DUTIES.get(path, DUTIES["runnerApp"]),
            str(entry.get("privateKey", "")),
            permissions.get(path, _RUNNERS),
        )
        for path, entry in entries.items()
        if not only or path in only
    ]
    return str(github.get("owner", "")), apps


def _administration(github: Any) -> dict[str, str]:
    """Return the permissions for what gpu-ci:github creates."""
    value: Mapping[str, Any] = github if isinstance(github, Mapping) else {}
    needed: dict[str, str] = {}
    if value.get("runnerGroup") is not None:
        needed |= _RUNNERS
    if value.get("rules"):
        needed["administration"] = "write"
    for entry in (value.get("secrets") or {}).values():
        for_secrets, for_variables = _OF_SCOPE[entry["scope"]["kind"]]
        needed |= {for_secrets: "write"} if entry.get("secrets") else {}
        needed |= {for_variables: "write"} if entry.get("variables") else {}
    return needed


def ask(api_url: str, path: str, token: str = "", method: str = "GET") -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON of GitHub's answer.

    Raises:
        InputError: GitHub could not be reached, or answered something else. The text has no part of the answer.
    """
    import httplib2  # type: ignore[import-untyped]

    headers = {"accept": "application/vnd.github+json", "user-agent": "gpu-ci", "content-length": "0"}
    headers |= {"authorization": f"Bearer {token}"} if token else {}
    try:
        response, body = httplib2.Http(timeout=_TIMEOUT_SEC).request(f"{api_url}{path}", method, headers=headers)
        answer = json.loads(body)
    except ValueError:
        raise InputError(f"{api_url}: the answer is no JSON") from None
    except (httplib2.HttpLib2Error, OSError) as error:
        raise InputError(f"{api_url} could not be reached: {type(error).__name__}") from None
    return int(response.status), answer if isinstance(answer, dict) else {}
