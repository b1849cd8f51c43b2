"""Validates GitHub's names of repositories, secrets, variables, environments and workflows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from ..errors import at_path, invalid, raise_problems

# terraform-provider-github v6.13.0, github/resource_github_repository.go, `name`.
_REPOSITORY = re.compile(r"[-a-zA-Z0-9_.]{1,100}")
# The same, github/util.go, secretNameRegexp; and "Names must not start with the GITHUB_ prefix" of
# docs.github.com/en/actions/reference/security/secrets. The rule also applies to variables.
_SETTING = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED_PREFIX = "GITHUB_"
# As in pulumi.com/registry/packages/github/api-docs/enterpriseactionsrunnergroup: "my-organization/my-repo/.github/
# workflows/cool-workflow.yaml@refs/tags/v1". For characters that a ref must not contain, see
# git-scm.com/docs/git-check-ref-format.
_WORKFLOW = re.compile(
    r"(?P<owner>[a-zA-Z0-9][-a-zA-Z0-9]{0,38})/(?P<repository>[-a-zA-Z0-9_.]{1,100})"
    r"/\.github/workflows/(?P<file>[^/@\s]+\.ya?ml)@(?P<ref>[^@\s~^:?*\[\\]+)"
)


def _repository(value: str) -> str:
    if "/" in value:
        raise invalid(
            "contains an owner, but the owner is always github:owner of the provider",
            "repository-with-owner",
            hint=value.rpartition("/")[2],
        )
    if not _REPOSITORY.fullmatch(value):
        raise invalid(
            "is not the name of a repository",
            "not-a-repository",
            safe_hint="letters, digits, dots, dashes and underscores, at most 100",
        )
    return value


def _setting(value: str) -> str:
    if value.upper().startswith(_RESERVED_PREFIX):
        raise invalid(
            f"starts with {_RESERVED_PREFIX}, which GitHub reserves", "reserved-name", safe_hint="use another prefix"
        )
    if not _SETTING.fullmatch(value):
        raise invalid(
            "is not a valid name on GitHub",
            "wrong-name",
            safe_hint="letters, digits and underscores, no digit first, such as API_TOKEN",
        )
    return value


def _workflow(value: str) -> str:
    if "@" not in value:
        raise invalid(
            "has no ref, so workflows from any branch would be allowed",
            "workflow-without-ref",
            hint=f"{value}@refs/heads/main",
        )
    if not _WORKFLOW.fullmatch(value):
        hint = "such as acme/web/.github/workflows/gpu.yml@refs/heads/main"
        raise invalid("is not a workflow", "not-a-workflow", safe_hint=hint)
    return value


def _refuse_duplicates(places: Iterable[tuple[int | str, Any]]) -> None:
    """Raise an error for duplicate names. Unknown names are not compared."""
    seen: dict[str, str] = {}
    problems = []
    for place, name in places:
        if not isinstance(name, str):
            continue
        if first := seen.get(name.lower()):
            error = invalid(
                f"is a duplicate of {first}; names are case-insensitive", "duplicate", safe_hint="remove it"
            )
            problems.append(at_path(error, name, place))
        seen.setdefault(name.lower(), name)
    raise_problems(problems)


def _each_once(values: list[Any]) -> list[Any]:
    _refuse_duplicates(enumerate(values))
    return values


def _keys_once(values: dict[str, Any]) -> dict[str, Any]:
    _refuse_duplicates((name, name) for name in values)
    return values


RepositoryName = Annotated[str, AfterValidator(_repository)]
SettingName = Annotated[str, AfterValidator(_setting)]
"""The name of a secret or a variable."""
WorkflowRef = Annotated[str, AfterValidator(_workflow)]
# "An environment name may not exceed 255 characters": docs.github.com/en/actions/deployment/
# targeting-different-environments/using-environments-for-deployment.
EnvironmentName = Annotated[str, Field(min_length=1, max_length=255)]
EachOnce = AfterValidator(_each_once)
KeysOnce = AfterValidator(_keys_once)
