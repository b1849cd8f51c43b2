"""The models of gpu-ci:github: a runner group, secrets by reference, and rules of repositories."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator

from .. import naming
from ..args import Args, Redacted
from ..errors import at_path, invalid, raise_problems
from ..gcp.resource_names import SecretName
from ..github.actions_secrets import ActionsSecretsArgs
from ..github.names import KeysOnce, SettingName
from ..github.repository_rules import RepositoryRules, RepositoryRulesArgs
from ..github.runner_group import RunnerGroup, RunnerGroupArgs

# The fields of a scope that identify a secret's place. In an organization the name of a secret is unique, whichever
# repositories may use it.
_PLACE = {"kind", "repository", "environment"}


def _name(value: str) -> str:
    """Return a name that can be part of a resource's name. Raise an error for any other."""
    if not re.fullmatch(naming.PATTERN, value):
        raise invalid("the name has a form that is not accepted", expected=naming.FORM, safe_hint="such as kernels")
    return value


_Name = Annotated[str, AfterValidator(_name)]


class SecretsByReference(ActionsSecretsArgs):
    """Secrets and variables of a place on GitHub. Secrets are references to Secret Manager, never values."""

    WIRING: ClassVar[frozenset[str]] = frozenset()

    secrets: Annotated[dict[SettingName, SecretName], KeysOnce] = Field(  # type: ignore[assignment]
        default={},
        validate_default=True,
        description="a map from the name on GitHub to the secret of Secret Manager with the value, as "
        "projects/<project>/secrets/<name>; the newest version is used",
    )


class Github(Args):
    """The runner group, secrets, variables and repository rules that the stack creates on GitHub."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "runnerGroup": RunnerGroup.EXAMPLE,
        "secrets": {"kernels": {"scope": {"kind": "repository", "repository": "kernels"}}},
        "rules": {"kernels": RepositoryRules.EXAMPLE},
    }

    runner_group: RunnerGroupArgs | None = Field(
        default=None, description="the runner group of this stack's runners; its default name is gpu-<stack>"
    )
    # A value that is here by mistake may be the secret itself, so messages must not show it.
    secrets: Annotated[dict[_Name, SecretsByReference], Redacted()] = Field(
        default={},
        description="secrets and variables of a repository, environment or organization, by a name that you choose",
    )
    rules: dict[_Name, RepositoryRulesArgs] = Field(
        default={}, description="rules for the default branch of a repository, by a name that you choose"
    )

    @field_validator("secrets")
    @classmethod
    def _each_secret_once(cls, value: dict[str, SecretsByReference]) -> dict[str, SecretsByReference]:
        """Refuse two entries with the same secret: each deployment would overwrite the other's value."""
        owners: dict[tuple[str, ...], str] = {}
        problems = []
        for name, args in value.items():
            place = tuple(str(part).lower() for part in args.scope.model_dump(include=_PLACE).values())
            for sort in ("secrets", "variables"):
                for key in getattr(args, sort):
                    first = owners.setdefault((*place, sort, key.upper()), name)
                    if first != name:
                        error = invalid(
                            f"is kept by {first} already; case does not count", hint="remove one of the two"
                        )
                        problems.append(at_path(error, "a name", name, sort, key))
        raise_problems(problems)
        return value
