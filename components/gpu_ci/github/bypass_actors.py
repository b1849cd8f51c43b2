"""The users and Apps that may bypass the rules of a repository."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from ..args import Args, Input, Integer

# terraform-provider-github v6.13.0, github/resource_github_repository_ruleset.go, `bypass_mode`.
Mode = Literal["always", "pull_request", "exempt"]
ActorId = Annotated[Integer, Field(ge=1)]
_MODE = "always, pull_request (only when merging a pull request) or exempt (the rules do not run for them)"


class RoleActor(Args):
    """Every user with a role on the repository."""

    # terraform-provider-github v6.13.0, docs/resources/repository_ruleset.md: "base repository roles and their IDs".
    IDS: ClassVar[dict[str, int]] = {"maintain": 2, "write": 4, "admin": 5}

    type: Literal["RepositoryRole"] = Field(description="every user with a role on the repository")
    role: Literal["admin", "maintain", "write"] = Field(description="the role: admin, maintain or write")
    bypass_mode: Mode = Field(default="pull_request", description=_MODE)


class TeamActor(Args):
    """A team of the organization."""

    type: Literal["Team"] = Field(description="a team of the organization")
    id: Input[ActorId] = Field(description="the team's id number")
    bypass_mode: Mode = Field(default="pull_request", description=_MODE)


class AppActor(Args):
    """A GitHub App."""

    type: Literal["Integration"] = Field(description="a GitHub App")
    id: Input[ActorId] = Field(description="the App's id number, not that of its installation")
    bypass_mode: Mode = Field(default="pull_request", description=_MODE)


class UserActor(Args):
    """One user."""

    type: Literal["User"] = Field(description="one user")
    id: Input[ActorId] = Field(description="the user's id number, not the login")
    bypass_mode: Mode = Field(default="pull_request", description=_MODE)


class OwnersActor(Args):
    """The owners of the organization."""

    type: Literal["OrganizationAdmin"] = Field(description="the owners of the organization")
    bypass_mode: Mode = Field(default="pull_request", description=_MODE)


class DeployKeyActor(Args):
    """Every deploy key of the repository. A key cannot create pull requests, so its mode is always or exempt."""

    type: Literal["DeployKey"] = Field(description="every deploy key of the repository")
    bypass_mode: Literal["always", "exempt"] = Field(
        description="always or exempt, because a key cannot create pull requests"
    )


BypassActor: TypeAlias = Annotated[
    RoleActor | TeamActor | AppActor | UserActor | OwnersActor | DeployKeyActor, Field(discriminator="type")
]
