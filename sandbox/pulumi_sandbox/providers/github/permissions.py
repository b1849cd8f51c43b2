"""The permission that an App needs for each type, and the call of the provider that fails without it.

Sources:

- Permissions: github/docs, src/github-apps/data/fpt-2022-11-28/server-to-server-permissions.json, by endpoint.
- Calls: the first request of Create in terraform-provider-github v6.13.0, github/resource_github_*.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.github.types import text_of
from pulumi_sandbox.providers.github.world import refusal_text

# "Resource not accessible by integration": docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
NO_ACCESS = "Resource not accessible by integration"


class Needed(NamedTuple):
    """One permission, required with level `write`, and the request that requires it."""

    permission: str
    method: str
    path: str


_REPOSITORY = "repos/{owner}/{repository}"
_ENVIRONMENT = f"{_REPOSITORY}/environments/{{environment}}"
NEEDED = {
    types.RUNNER_GROUP: Needed("organization_self_hosted_runners", "POST", "orgs/{owner}/actions/runner-groups"),
    types.RULESET: Needed("administration", "POST", f"{_REPOSITORY}/rulesets"),
    types.REPOSITORY: Needed("administration", "POST", "orgs/{owner}/repos"),
    types.ENVIRONMENT: Needed("administration", "PUT", _ENVIRONMENT),
    types.SECRET: Needed("secrets", "GET", f"{_REPOSITORY}/actions/secrets/public-key"),
    types.VARIABLE: Needed("actions_variables", "POST", f"{_REPOSITORY}/actions/variables"),
    types.ENVIRONMENT_SECRET: Needed("environments", "GET", f"{_ENVIRONMENT}/secrets/public-key"),
    types.ENVIRONMENT_VARIABLE: Needed("environments", "POST", f"{_ENVIRONMENT}/variables"),
    types.DEPENDABOT_SECRET: Needed("dependabot_secrets", "GET", f"{_REPOSITORY}/dependabot/secrets/public-key"),
    types.ORGANIZATION_SECRET: Needed("organization_secrets", "GET", "orgs/{owner}/actions/secrets/public-key"),
    types.ORGANIZATION_VARIABLE: Needed("organization_actions_variables", "POST", "orgs/{owner}/actions/variables"),
}


def missing_permission(
    token: str, inputs: dict[str, object], owner: str, app: str, organizations: Organizations
) -> Iterator[str]:
    """Yield GitHub's refusal if the App does not have the permission for the resource."""
    needed = NEEDED.get(token)
    if needed and organizations.lacks(app, needed.permission):
        path = needed.path.format(
            owner=owner, repository=text_of(inputs, "repository"), environment=text_of(inputs, "environment")
        )
        yield refusal_text(needed.method, path, 403, NO_ACCESS)
