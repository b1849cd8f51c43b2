"""Secrets and variables of GitHub Actions: those of one repository, environment or organization, or of Dependabot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..args import Args, PlainInput, SecretInput
from ..component import Component
from ..errors import invalid
from .names import KeysOnce, SettingName
from .repository_lookup import repository_ids
from .secret_scopes import DependabotScope, EnvironmentScope, OrganizationScope, RepositoryScope, Scope

# "Secrets are limited to 48 KB in size", "Individual variables are limited to 48 KB in size": the pages named in
# secret_scopes.py.
_MOST_BYTES = 48 * 1024


def _size(value: str) -> str:
    if len(value.encode()) > _MOST_BYTES:
        raise invalid(f"has more than {_MOST_BYTES} bytes", safe_hint="encrypt it into a file, and keep its key here")
    return value


Value = Annotated[str, Field(min_length=1), AfterValidator(_size)]


class ActionsSecretsArgs(Args):
    """What is kept on GitHub, and for whom."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"secrets"})

    scope: Scope = Field(
        description="who has them: a repository, an environment of one, an organization, or Dependabot in a repository"
    )
    secrets: Annotated[dict[SettingName, SecretInput[Value]], KeysOnce] = Field(
        default={},
        validate_default=True,
        description="name to value, 1 to 49152 bytes each; every value a secret Output. At most 100 in a repository or "
        "an environment, 1000 in an organization",
    )
    variables: Annotated[dict[SettingName, PlainInput[Value]], KeysOnce] = Field(
        default={},
        validate_default=True,
        description="name to value of what is not secret, 1 to 49152 bytes each; anybody who can read the repository "
        "can read them. At most 500 in a repository, 100 in an environment, 1000 in an organization; Dependabot has "
        "none. Workflows see 256 KB of those of the repository and the organization together",
    )

    @field_validator("secrets", "variables")
    @classmethod
    def _as_many_as_there_may_be(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        scope = info.data.get("scope")
        if scope is None:
            return value
        most = scope.MOST_SECRETS if info.field_name == "secrets" else scope.MOST_VARIABLES
        if value and not most:
            raise invalid(
                "are not for Dependabot, which has secrets only", safe_hint="use kind: repository for variables"
            )
        if len(value) > most:
            raise invalid(
                f"are {len(value)}, and GitHub keeps at most {most}", safe_hint="use a second scope for the rest"
            )
        return value

    @field_validator("variables")
    @classmethod
    def _something(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if not value and info.data.get("secrets") == {}:
            raise invalid("is empty, and so is secrets", safe_hint="give at least one secret or variable")
        return value


class ActionsSecrets(Component):
    """Secrets and variables that GitHub hands to the workflows of one repository, environment or organization.

    Creates: one secret or variable on GitHub for each entry. Costs: nothing.
    Does not: make the repository or the environment, or read back a value; GitHub gives none out. A secret that
    somebody changed on GitHub shows in a refresh by its remoteUpdatedAt alone, and stays until its value here changes.
    Replaces on change of: scope, all of them; for an organization's secrets of visibility selected the repositories
    too (each is away for a moment). A new value updates that one secret or variable and nothing else.
    """

    TYPE: ClassVar[str] = "gpu-ci:github:ActionsSecrets"
    ARGS: ClassVar[type[Args]] = ActionsSecretsArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "scope": {"kind": "repository", "repository": "web"},
        "variables": {"INSTANCE_NAME": "gpu-l4"},
    }

    place: pulumi.Output[str]
    """Where they are, such as `repository web`; known once all of them are there."""

    def __init__(self, name: str, args: ActionsSecretsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        target = self._target(args)
        made: list[pulumi.CustomResource] = []
        for key, value in args.secrets.items():
            # GitHub keeps names in upper case; another spelling of the same name is the same secret.
            setting = key.upper()
            made.append(
                target.secret(
                    f"{name}-secret-{setting}",
                    secret_name=setting,
                    value=value,
                    **target.where,
                    # An organization's secret keeps its id when it is replaced: deleted last, it would be gone
                    # (github.com/pulumi/pulumi-github/issues/250).
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
        """The resources of a scope, and the inputs that say which one it is."""
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
                # There are no variables of Dependabot, and the arguments have refused any.
                return _Target(github.DependabotSecret, github.ActionsVariable, {"repository": repository}, place)
            case OrganizationScope(visibility=visibility, repositories=names):
                where: dict[str, Any] = {"visibility": visibility}
                if names:
                    # Sent with every value: GitHub takes the access of all repositories away from a secret that is
                    # written without them (github.com/external-secrets/external-secrets/issues/6514).
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
    """What a scope is made of."""

    secret: Callable[..., pulumi.CustomResource]
    variable: Callable[..., pulumi.CustomResource]
    where: Mapping[str, Any]
    place: pulumi.Output[str]
