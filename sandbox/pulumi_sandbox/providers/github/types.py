"""The GitHub types that are checked in depth, and common functions of their rules."""

from __future__ import annotations

from typing import Any

SECRET = "github:index/actionsSecret:ActionsSecret"  # noqa: S105 - a type
ENVIRONMENT_SECRET = "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret"  # noqa: S105 - a type
ORGANIZATION_SECRET = "github:index/actionsOrganizationSecret:ActionsOrganizationSecret"  # noqa: S105 - a type
DEPENDABOT_SECRET = "github:index/dependabotSecret:DependabotSecret"  # noqa: S105 - a type
VARIABLE = "github:index/actionsVariable:ActionsVariable"
ENVIRONMENT_VARIABLE = "github:index/actionsEnvironmentVariable:ActionsEnvironmentVariable"
ORGANIZATION_VARIABLE = "github:index/actionsOrganizationVariable:ActionsOrganizationVariable"
RUNNER_GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
RULESET = "github:index/repositoryRuleset:RepositoryRuleset"
REPOSITORY = "github:index/repository:Repository"
ENVIRONMENT = "github:index/repositoryEnvironment:RepositoryEnvironment"

SECRETS = (SECRET, ENVIRONMENT_SECRET, ORGANIZATION_SECRET, DEPENDABOT_SECRET)
VARIABLES = (VARIABLE, ENVIRONMENT_VARIABLE, ORGANIZATION_VARIABLE)
# The types that belong to one repository and are deleted with it.
BELONGINGS = (
    SECRET, ENVIRONMENT_SECRET, DEPENDABOT_SECRET, VARIABLE, ENVIRONMENT_VARIABLE, RULESET, ENVIRONMENT,
)  # fmt: skip
# The types with all outputs of the real provider.
EMULATED = frozenset({*BELONGINGS, *SECRETS, *VARIABLES, RUNNER_GROUP, REPOSITORY})
# The four inputs for the value of a secret. Exactly one is allowed.
VALUES = ("encryptedValue", "plaintextValue", "value", "valueEncrypted")


def numbers(inputs: dict[str, Any], name: str) -> list[int]:
    """Return the known numbers of a list, or an empty list if the list is not known."""
    value = inputs.get(name)
    return [int(one) for one in value if isinstance(one, int | float)] if isinstance(value, list) else []


def same_name(one: str, other: str) -> bool:
    """Return True if two names are the same to GitHub, whose names are case-insensitive."""
    return one.lower() == other.lower()
