"""The component RepositoryRules: rules for the default branch of a repository, such as required checks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..args import Args, ComponentArgs, Input, Integer, StrictBool
from ..component import Component
from ..errors import at_path, invalid, raise_problems
from .names import RepositoryName

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


MergeMethod = Literal["merge", "squash", "rebase"]


class RequiredCheck(Args):
    """A check that must pass before a pull request is merged."""

    context: str = Field(
        min_length=1, description="the name of the check; for GitHub Actions the name of the job, such as gpu"
    )
    integration_id: Input[Annotated[Integer, Field(ge=1)]] | None = Field(
        default=None,
        description="the id number of the App that must report the check, 15368 for GitHub Actions; by default any App",
    )


class PullRequestRules(Args):
    """The requirements for merging a pull request."""

    required_approving_review_count: Integer = Field(
        default=1, ge=0, le=10, description="number of required approving reviews, 0 to 10"
    )
    dismiss_stale_reviews_on_push: StrictBool = Field(
        default=True, description="whether a new commit dismisses approvals"
    )
    require_code_owner_review: StrictBool = Field(
        default=False, description="whether the code owners of the changed files (CODEOWNERS) must approve"
    )
    require_last_push_approval: StrictBool = Field(
        default=False, description="whether a user other than the author of the last push must approve"
    )
    required_review_thread_resolution: StrictBool = Field(
        default=True, description="whether every conversation must be resolved"
    )
    allowed_merge_methods: list[MergeMethod] | None = Field(
        default=None, min_length=1, description="the allowed merge methods; by default the repository's merge methods"
    )


def _contexts_once(checks: list[RequiredCheck]) -> list[RequiredCheck]:
    error = invalid("is a duplicate", "duplicate", safe_hint="remove it")
    names = [check.context for check in checks]
    raise_problems([at_path(error, name, at, "context") for at, name in enumerate(names) if name in names[:at]])
    return checks


class RepositoryRulesArgs(ComponentArgs):
    """The rules of the default branch."""

    repository: Input[RepositoryName] = Field(description="the name of the repository, without its owner")
    # terraform-provider-github v6.13.0, github/resource_github_repository_ruleset.go, `name` and `enforcement`.
    ruleset_name: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="the name of the ruleset on GitHub, at most 100 characters; by default the component's name",
    )
    enforcement: Literal["active", "evaluate", "disabled"] = Field(
        default="active",
        description="active, disabled, or evaluate (reports without blocking; for organizations of an enterprise)",
    )
    pull_request: PullRequestRules = Field(
        default=PullRequestRules(),
        description="the requirements for merging a pull request; direct pushes are not allowed",
    )
    required_checks: Annotated[list[RequiredCheck], AfterValidator(_contexts_once)] = Field(
        default=[], description="checks that must pass before a pull request is merged"
    )
    strict_checks: StrictBool = Field(
        default=True, description="whether the checks must pass on top of the branch's latest commit"
    )
    required_linear_history: StrictBool = Field(default=False, description="whether to reject merge commits")
    bypass_actors: list[BypassActor] = Field(
        default=[], description="the users, teams and Apps that may bypass the rules; by default none"
    )

    @field_validator("required_linear_history")
    @classmethod
    def _mergeable(cls, value: bool, info: ValidationInfo) -> bool:
        rules = info.data.get("pull_request")
        if value and rules and rules.allowed_merge_methods == ["merge"]:
            raise invalid(
                "allows no merge: pullRequest.allowedMergeMethods allows merge commits only",
                "no-merge-method",
                safe_hint="add squash or rebase to pullRequest.allowedMergeMethods",
            )
        return value


class RepositoryRules(Component):
    """Rules for the default branch: changes only by pull request with passed checks, and no deletion or force push.

    Creates: a ruleset of the repository for its default branch. Costs: nothing; for a private repository GitHub
    requires a paid plan (Pro, Team or Enterprise).
    Does not: change other branches or tags, rules of the organization, or branch protection. If several rules apply,
    the strictest is in force.
    Replaces on change of: repository. Everything else is updated in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:github:RepositoryRules"
    ARGS: ClassVar[type[Args]] = RepositoryRulesArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "repository": "web",
        "requiredChecks": [{"context": "gpu", "integrationId": 15368}],
        "bypassActors": [{"type": "RepositoryRole", "role": "admin"}],
    }

    ruleset_id: pulumi.Output[int]
    """GitHub's id of the ruleset."""

    def __init__(self, name: str, args: RepositoryRulesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        ruleset = github.RepositoryRuleset(
            f"{name}-ruleset",
            name=args.ruleset_name or name,
            repository=args.repository,
            target="branch",
            enforcement=args.enforcement,
            conditions=github.RepositoryRulesetConditionsArgs(
                ref_name=github.RepositoryRulesetConditionsRefNameArgs(includes=["~DEFAULT_BRANCH"], excludes=[])
            ),
            rules=github.RepositoryRulesetRulesArgs(
                deletion=True,
                non_fast_forward=True,
                required_linear_history=args.required_linear_history,
                pull_request=github.RepositoryRulesetRulesPullRequestArgs(**dict(args.pull_request)),
                required_status_checks=_checks(args),
            ),
            bypass_actors=[_actor(each) for each in args.bypass_actors],
            # For an update in place, the provider would look for the ruleset of the old repository in the new
            # repository (terraform-provider-github v6.13.0, github/resource_github_repository_ruleset.go).
            opts=self.child(replace_on_changes=["repository"]),
        )
        self.ruleset_id = ruleset.ruleset_id
        self.register()


def _checks(args: RepositoryRulesArgs) -> github.RepositoryRulesetRulesRequiredStatusChecksArgs | None:
    """Return the rule about checks, or None without checks, because GitHub does not accept an empty rule."""
    if not args.required_checks:
        return None
    return github.RepositoryRulesetRulesRequiredStatusChecksArgs(
        required_checks=[
            github.RepositoryRulesetRulesRequiredStatusChecksRequiredCheckArgs(**dict(each))
            for each in args.required_checks
        ],
        strict_required_status_checks_policy=args.strict_checks,
    )


def _actor(actor: BypassActor) -> github.RepositoryRulesetBypassActorArgs:
    number: pulumi.Input[int | None]
    match actor:
        case RoleActor():
            number = RoleActor.IDS[actor.role]
        # Actors of these types have no id.
        case OwnersActor() | DeployKeyActor():
            number = None
        case _:
            number = actor.id
    return github.RepositoryRulesetBypassActorArgs(
        actor_type=actor.type, bypass_mode=actor.bypass_mode, actor_id=number
    )
