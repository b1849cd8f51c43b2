"""The component ActionsSecrets: secrets and variables of GitHub Actions, and secrets of Dependabot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..args import Args, ComponentArgs, Input, PlainInput, SecretInput
from ..component import Component
from ..errors import invalid
from .names import EachOnce, EnvironmentName, KeysOnce, RepositoryName, SettingName
from .repository_lookup import repository_ids


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


# "Secrets are limited to 48 KB in size", "Individual variables are limited to 48 KB in size" (GitHub's pages that
# are named above).
_MOST_BYTES = 48 * 1024


def _size(value: str) -> str:
    if len(value.encode()) > _MOST_BYTES:
        raise invalid(
            f"has more than {_MOST_BYTES} bytes",
            "value-too-large",
            safe_hint="store it encrypted in a file, and only its key here",
        )
    return value


Value = Annotated[str, Field(min_length=1), AfterValidator(_size)]


class ActionsSecretsArgs(ComponentArgs):
    """The secrets and variables on GitHub, and their scope."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"secrets"})

    scope: Scope = Field(
        description="the scope: a repository, an environment of a repository, an organization, or Dependabot in a "
        "repository"
    )
    secrets: Annotated[dict[SettingName, SecretInput[Value]], KeysOnce] = Field(
        default={},
        validate_default=True,
        description="secrets by name, 1 to 49152 bytes each; every value must be a secret Output. At most 100 in a "
        "repository or an environment, 1000 in an organization",
    )
    variables: Annotated[dict[SettingName, PlainInput[Value]], KeysOnce] = Field(
        default={},
        validate_default=True,
        description="variables by name, which are not secret, 1 to 49152 bytes each; every user with read access to "
        "the repository can read them. At most 500 in a repository, 100 in an environment, 1000 in an organization; "
        "none for Dependabot. A workflow can use 256 KB of repository and organization variables together",
    )

    @field_validator("secrets", "variables")
    @classmethod
    def _check_count(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        scope = info.data.get("scope")
        if scope is None:
            return value
        most = scope.MOST_SECRETS if info.field_name == "secrets" else scope.MOST_VARIABLES
        if value and not most:
            raise invalid(
                "are not supported for Dependabot, which has only secrets",
                "no-dependabot-variables",
                safe_hint="use kind: repository for variables",
            )
        if len(value) > most:
            raise invalid(
                f"are {len(value)}, but GitHub allows at most {most}",
                "too-many",
                safe_hint="put the others into a second scope",
            )
        return value

    @field_validator("variables")
    @classmethod
    def _check_not_empty(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if not value and info.data.get("secrets") == {}:
            raise invalid(
                "is empty, and secrets is empty, too", "nothing-set", safe_hint="set at least one secret or variable"
            )
        return value


class ActionsSecrets(Component):
    """Secrets and variables for the GitHub Actions workflows of one repository, environment or organization.

    Creates: one secret or variable on GitHub for each entry. Costs: nothing.
    Does not: create the repository or the environment, or read values, because GitHub does not return them. If a user
    changes a secret on GitHub, a refresh shows only a new remoteUpdatedAt. The user's value stays on GitHub until the
    value in the stack changes.
    Replaces on change of: for scope, all secrets and variables. For the repositories of an organization with visibility
    selected, its secrets. During a replacement, each secret is missing for a moment. A new value updates only its
    own secret or variable.
    """

    TYPE: ClassVar[str] = "gpu-ci:github:ActionsSecrets"
    ARGS: ClassVar[type[Args]] = ActionsSecretsArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "scope": {"kind": "repository", "repository": "web"},
        "variables": {"INSTANCE_NAME": "gpu-l4"},
    }

    place: pulumi.Output[str]
    """Scope of the secrets and variables, such as `repository web`; known once all of them exist."""

    def __init__(self, name: str, args: ActionsSecretsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        target = self._target(args)
        made: list[pulumi.CustomResource] = []
        for key, value in args.secrets.items():
            # GitHub stores names in upper case. Names that differ only in case are the same secret.
            setting = key.upper()
            made.append(
                target.secret(
                    f"{name}-secret-{setting}",
                    secret_name=setting,
                    value=value,
                    **target.where,
                    # The new and the old secret of an organization have the same id. If the old secret were deleted
                    # last, the new one would be deleted (github.com/pulumi/pulumi-github/issues/250).
                    opts=self.child(delete_before_replace=True),
                )
            )
        for key, value in args.variables.items():
            setting = key.upper()
            options = {**target.where, "variable_name": setting, "value": value, "opts": self.child()}
            made.append(target.variable(f"{name}-variable-{setting}", **options))
        ready = pulumi.Output.all(*(each.id for each in made))
        self.place = pulumi.Output.all(ready, target.place).apply(lambda found: str(found[1]))
        self.register()

    def _target(self, args: ActionsSecretsArgs) -> _Target:
        """Return the resource classes of a scope, and the inputs that identify it."""
        match args.scope:
            case RepositoryScope(repository=repository):
                place = pulumi.Output.concat("repository ", repository)
                return _Target(github.ActionsSecret, github.ActionsVariable, {"repository": repository}, place)
            case EnvironmentScope(repository=repository, environment=environment):
                return _Target(
                    github.ActionsEnvironmentSecret,
                    github.ActionsEnvironmentVariable,
                    {"repository": repository, "environment": environment},
                    pulumi.Output.concat("environment ", environment, " of ", repository),
                )
            case DependabotScope(repository=repository):
                place = pulumi.Output.concat("Dependabot of ", repository)
                # Dependabot has no variables, and the arguments reject them.
                return _Target(github.DependabotSecret, github.ActionsVariable, {"repository": repository}, place)
            case OrganizationScope(visibility=visibility, repositories=names):
                where: dict[str, Any] = {"visibility": visibility}
                if names:
                    # The repositories are sent with every value. GitHub removes all repositories' access to a secret
                    # that is written without them (github.com/external-secrets/external-secrets/issues/6514).
                    where["selected_repository_ids"] = repository_ids(
                        self, args, "scope.repositories", names, public=True
                    )
                return _Target(
                    github.ActionsOrganizationSecret,
                    github.ActionsOrganizationVariable,
                    where,
                    pulumi.Output.from_input("the organization"),
                )


class _Target(NamedTuple):
    """The resource classes and identifying inputs of a scope."""

    secret: Callable[..., pulumi.CustomResource]
    variable: Callable[..., pulumi.CustomResource]
    where: Mapping[str, Any]
    place: pulumi.Output[str]
