"""The scopes of GitHub secrets and variables, with the limits of each scope. `Scope` is the union of the models."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from ..args import Args, Input
from ..errors import invalid
from .names import EachOnce, EnvironmentName, RepositoryName


class RepositoryScope(Args):
    """The workflows of one repository."""

    # docs.github.com/en/actions/reference/security/secrets ("Limits for secrets") and docs.github.com/en/actions/
    # reference/workflows-and-actions/variables ("Limits for configuration variables").
    # All limits in this module are from there.
    MOST_SECRETS: ClassVar[int] = 100
    MOST_VARIABLES: ClassVar[int] = 500

    kind: Literal["repository"] = Field(description="the workflows of one repository")
    repository: Input[RepositoryName] = Field(description="the name of the repository, without its owner")


class EnvironmentScope(Args):
    """The jobs of one repository that name an environment."""

    MOST_SECRETS: ClassVar[int] = 100
    MOST_VARIABLES: ClassVar[int] = 100

    kind: Literal["environment"] = Field(description="the jobs of one repository that name an environment")
    repository: Input[RepositoryName] = Field(description="the name of the repository, without its owner")
    environment: Input[EnvironmentName] = Field(
        description="the name of an environment of the repository, which must exist"
    )


class OrganizationScope(Args):
    """The workflows of several repositories of the organization."""

    MOST_SECRETS: ClassVar[int] = 1000
    MOST_VARIABLES: ClassVar[int] = 1000

    kind: Literal["organization"] = Field(description="the workflows of several repositories of the organization")
    visibility: Literal["selected", "private", "all"] = Field(
        default="selected",
        description="the repositories: selected (those listed), private (including internal ones) or all (including "
        "public ones)",
    )
    repositories: Annotated[list[Input[RepositoryName]], EachOnce] = Field(
        default=[],
        validate_default=True,
        description="names of the repositories with access, without the owner; for visibility selected",
    )

    @field_validator("repositories")
    @classmethod
    def _for_selected(cls, value: list[Any], info: ValidationInfo) -> list[Any]:
        visibility = info.data.get("visibility")
        if visibility == "selected" and not value:
            raise invalid(
                "must list a repository, because otherwise no repository has access",
                "nobody-has-access",
                safe_hint="or set visibility: private",
            )
        if visibility in ("private", "all") and value:
            raise invalid(
                f"is only for visibility selected, not for {visibility}",
                "not-for-visibility",
                safe_hint="remove one of the two",
            )
        return value


class DependabotScope(Args):
    """The Dependabot updates of one repository, which have separate secrets and no variables."""

    # GitHub publishes no limit for Dependabot secrets.
    MOST_SECRETS: ClassVar[int] = 1000
    MOST_VARIABLES: ClassVar[int] = 0

    kind: Literal["dependabot"] = Field(description="the Dependabot updates of one repository")
    repository: Input[RepositoryName] = Field(description="the name of the repository, without its owner")


Scope: TypeAlias = Annotated[
    RepositoryScope | EnvironmentScope | OrganizationScope | DependabotScope, Field(discriminator="kind")
]
