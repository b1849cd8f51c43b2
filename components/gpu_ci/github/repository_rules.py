"""Rules for the default branch of a repository: by pull request only, with the checks that must pass."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..args import Args, Input, Integer, StrictBool
from ..component import Component
from ..errors import at_path, invalid, raise_problems
from .bypass_actors import BypassActor, DeployKeyActor, OwnersActor, RoleActor
from .names import RepositoryName

MergeMethod = Literal["merge", "squash", "rebase"]


class RequiredCheck(Args):
    """A check that must pass before a pull request is merged."""

    context: str = Field(min_length=1, description="name of the check: for GitHub Actions that of the job, such as gpu")
    integration_id: Input[Annotated[Integer, Field(ge=1)]] | None = Field(
        default=None,
        description="number of the App that must report it, 15368 for GitHub Actions; by default any may",
    )


class PullRequestRules(Args):
    """What a pull request needs before it is merged."""

    required_approving_review_count: Integer = Field(
        default=1, ge=0, le=10, description="approving reviews it needs, 0 to 10"
    )
    dismiss_stale_reviews_on_push: StrictBool = Field(
        default=True, description="whether a new commit takes approvals away"
    )
    require_code_owner_review: StrictBool = Field(
        default=False, description="whether the owners of the changed files (CODEOWNERS) must approve"
    )
    require_last_push_approval: StrictBool = Field(
        default=False, description="whether somebody else than who pushed last must approve"
    )
    required_review_thread_resolution: StrictBool = Field(
        default=True, description="whether every conversation must be resolved"
    )
    allowed_merge_methods: list[MergeMethod] | None = Field(
        default=None, min_length=1, description="how it may be merged; by default as the repository allows"
    )


def _contexts_once(checks: list[RequiredCheck]) -> list[RequiredCheck]:
    error = invalid("is required already", safe_hint="remove one")
    names = [check.context for check in checks]
    raise_problems([at_path(error, name, at, "context") for at, name in enumerate(names) if name in names[:at]])
    return checks


class RepositoryRulesArgs(Args):
    """What holds for the default branch."""

    repository: Input[RepositoryName] = Field(description="name of the repository, without its owner")
    # terraform-provider-github v6.13.0, github/resource_github_repository_ruleset.go, `name` and `enforcement`.
    ruleset_name: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="what GitHub calls the ruleset, at most 100 characters; by default the component's name",
    )
    enforcement: Literal["active", "evaluate", "disabled"] = Field(
        default="active",
        description="active, disabled, or evaluate (reports and blocks nothing; for organizations of an enterprise)",
    )
    pull_request: PullRequestRules = Field(
        default=PullRequestRules(), description="what a pull request needs; nothing comes in without one"
    )
    required_checks: Annotated[list[RequiredCheck], AfterValidator(_contexts_once)] = Field(
        default=[], description="checks that must pass before a pull request is merged"
    )
    strict_checks: StrictBool = Field(
        default=True, description="whether they must have passed on top of the branch's latest commit"
    )
    required_linear_history: StrictBool = Field(default=False, description="whether merge commits are refused")
    bypass_actors: list[BypassActor] = Field(default=[], description="who may pass by the rules; by default nobody")

    @field_validator("required_linear_history")
    @classmethod
    def _mergeable(cls, value: bool, info: ValidationInfo) -> bool:
        rules = info.data.get("pull_request")
        if value and rules and rules.allowed_merge_methods == ["merge"]:
            raise invalid(
                "leaves no way to merge: pullRequest.allowedMergeMethods makes merge commits only",
                safe_hint="allow squash or rebase there",
            )
        return value


class RepositoryRules(Component):
    """The default branch changes only by pull request, with its checks passed, and is never deleted or forced.

    Creates: a ruleset of the repository for its default branch. Costs: nothing; for a private repository GitHub needs a
    paid plan (Pro, Team or Enterprise).
    Does not: touch other branches or tags, or rules that the organization or a branch protection has; of all that
    apply, the strictest holds.
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
    """GitHub's number of the ruleset."""

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
            # The provider updates it in place, and asks the new repository for the old one's ruleset
            # (terraform-provider-github v6.13.0, github/resource_github_repository_ruleset.go).
            opts=self.child(replace_on_changes=["repository"]),
        )
        self.ruleset_id = ruleset.ruleset_id
        self.register()


def _checks(args: RepositoryRulesArgs) -> github.RepositoryRulesetRulesRequiredStatusChecksArgs | None:
    """The rule about checks; GitHub takes none without a check."""
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
        # Those two have no number, and the provider's documentation says to leave it out.
        case OwnersActor() | DeployKeyActor():
            number = None
        case _:
            number = actor.id
    return github.RepositoryRulesetBypassActorArgs(
        actor_type=actor.type, bypass_mode=actor.bypass_mode, actor_id=number
    )
