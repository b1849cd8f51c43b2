"""The models of gpu-ci:github: a runner group, secrets by reference, and rules of repositories."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator

from .. import naming
from ..args import Args, Redacted
from ..errors import at_path, invalid, raise_problems
from ..github.actions_secrets import ActionsSecretsArgs
from ..github.names import KeysOnce, SettingName
from ..github.repository_rules import RepositoryRules, RepositoryRulesArgs
from ..github.runner_group import RunnerGroup, RunnerGroupArgs
from ..secret_manager import StackSecret

# The fields of a scope that identify where a secret is stored. The list of repositories is not one of them, because the
# name of a secret is unique in an organization.
_PLACE = {"kind", "repository", "environment"}


def _name(value: str) -> str:
    """Return the name. It must be valid as a part of resource names."""
    if not re.fullmatch(naming.PATTERN, value):
        raise invalid(
            "is not a valid name of an entry", "wrong-name", expected=naming.FORM, safe_hint="such as kernels"
        )
    return value


_Name = Annotated[str, AfterValidator(_name)]


class SecretsByReference(ActionsSecretsArgs):
    """Secrets and variables of one scope on GitHub. Each secret is named by its place in a secret store."""

    WIRING: ClassVar[frozenset[str]] = frozenset()

    secrets: Annotated[dict[SettingName, StackSecret], KeysOnce] = Field(  # type: ignore[assignment]
        default={},
        validate_default=True,
        description="a map from the name on GitHub to the secret with the value: projects/<project>/secrets/<name> in "
        "Secret Manager, or the ARN of a secret in AWS Secrets Manager; the newest version is used",
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
    # A user may write the secret itself by mistake, so messages do not show invalid values.
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
        """Return the entries.

        Raise an error if two entries have the same secret, because one would overwrite the other.
        """
        owners: dict[tuple[str, ...], str] = {}
        problems = []
        for name, entry in value.items():
            place = tuple(str(part).lower() for part in entry.scope.model_dump(include=_PLACE).values())
            for field in ("secrets", "variables"):
                for key in getattr(entry, field):
                    first = owners.setdefault((*place, field, key.upper()), name)
                    if first != name:
                        error = invalid(
                            f"is already in {first}; names are case-insensitive",
                            "duplicate",
                            hint="remove one of the two",
                        )
                        problems.append(at_path(error, "a name", name, field, key))
        raise_problems(problems)
        return value
