"""The component GithubIdentity on AWS: an IAM role for the jobs of one GitHub repository, without keys."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_aws as aws
from pydantic import Field, ValidationInfo, field_validator

from ..args import Args, ComponentArgs, Input
from ..component import Component
from ..errors import invalid
from ..github_trust import ISSUER, TEMPLATE_CLAIMS, Event, GithubTrust, allowed_events
from ..labels import Labels, merge

# The audience that aws-actions/configure-aws-credentials requests.
AUDIENCE = "sts.amazonaws.com"

DEPLOY_SESSION_SEC = 7200
"""The longest session of a deployment, as .github/workflows/deploy-stack.yaml requests it. AWS's default is 3600."""

ProviderArn = Annotated[str, Field(pattern=rf"^arn:aws[a-z-]*:iam::[0-9]{{12}}:oidc-provider/{re.escape(ISSUER)}$")]
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}")


class GithubIdentityArgs(GithubTrust, ComponentArgs):
    """The arguments of a GitHub identity on AWS."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"tags", "policies", "provider_arn"})

    subject_claim: Literal["template", "immutable"] = Field(
        default="template",
        description="the form of the token's subject: template (set on the repository by one API call; with ids and "
        "the event) or immutable (GitHub's default for repositories created after July 15, 2026; with names and ids)",
    )
    repository: str | None = Field(
        default=None,
        validate_default=True,
        description="the repository as OWNER/NAME, for subjectClaim immutable only; a rename changes the subject",
    )
    events: list[Event] | None = Field(
        default=None,
        validate_default=True,
        description="the events whose runs may use the identity, for subjectClaim template only; by default push, "
        "schedule and workflow_dispatch, and for purpose preview also pull_request and merge_group",
    )
    policies: dict[Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")], Input[str]] = Field(
        default={}, description="the policies of the role, as JSON documents, each under a short name of its own"
    )
    provider_arn: Input[ProviderArn] | None = Field(
        default=None,
        description="the ARN of the account's OIDC provider for GitHub; an account can have only one; by default a new "
        "one",
    )
    tags: Labels = Field(default={}, description="tags of every resource that supports tags")

    @field_validator("subject_claim")
    @classmethod
    def _subject_claim(cls, value: str, info: ValidationInfo) -> str:
        if value == "immutable" and info.data.get("allow_organization"):
            raise invalid(
                "immutable names one repository, but allowOrganization trusts every repository of the owner",
                "organization-with-immutable-subject",
                safe_hint="use subjectClaim: template",
            )
        return value

    @field_validator("repository")
    @classmethod
    def _repository(cls, value: str | None, info: ValidationInfo) -> str | None:
        immutable = info.data.get("subject_claim") == "immutable"
        if value is None and immutable:
            raise invalid(
                "is required for subjectClaim immutable",
                "missing",
                expected="OWNER/NAME",
                safe_hint="or subjectClaim: template",
            )
        if value is not None and "subject_claim" in info.data and not immutable:
            raise invalid(
                "is for subjectClaim immutable only, because the template has no names",
                "only-for-immutable-subject",
                safe_hint="remove it",
            )
        if value is not None and not _REPOSITORY.fullmatch(value):
            raise invalid("is not the full name of a repository", "not-a-repository", expected="OWNER/NAME")
        return value

    @field_validator("events")
    @classmethod
    def _events(cls, value: list[Event] | None, info: ValidationInfo) -> list[Event]:
        if value is not None and info.data.get("subject_claim") == "immutable":
            raise invalid(
                "is for subjectClaim template only, because the immutable subject has no event and AWS has no such key",
                "only-for-template-subject",
                safe_hint="use subjectClaim: template",
            )
        return allowed_events(value, info.data.get("purpose"))


def subjects(args: GithubIdentityArgs) -> list[str]:
    """Return the subjects of the tokens that the role trusts. `*` stands for any repository of the owner."""
    if args.subject_claim == "immutable":
        owner, _, name = (args.repository or "").partition("/")
        # For a job with an environment, the subject ends with the environment. For other jobs it ends with the ref
        # (docs.github.com/en/actions/reference/security/oidc, "Example subject claims").
        context = (
            f"ref:{args.ref}" if args.environment is None else "environment:" + args.environment.replace(":", "%3A")
        )
        return [f"repo:{owner}@{args.owner_id}/{name}@{args.repository_id}:{context}"]
    values = [(args.owner_id, args.repository_id or "*", event) for event in args.events or ()]
    return [":".join(f"{name}:{value}" for name, value in zip(TEMPLATE_CLAIMS, each, strict=True)) for each in values]


def trust_policy(args: GithubIdentityArgs, provider_arn: str) -> str:
    """Return the trust policy of the role.

    The policy compares claims of the token by condition keys. Since January 2026, AWS has keys for several claims of
    GitHub, such as repository_id, ref, environment and job_workflow_ref (docs.aws.amazon.com/IAM/latest/UserGuide/
    reference_policies_iam-condition-keys.html, "condition-keys-wif"). There is no key for repository_owner_id, so the
    subject has the owner's id. If a token lacks the claim of a key, it does not match.
    """
    claims = {
        "aud": AUDIENCE,
        "repository_id": args.repository_id,
        "ref": args.ref,
        "environment": args.environment,
        "job_workflow_ref": args.job_workflow_ref,
    }
    equals: dict[str, Any] = {f"{ISSUER}:{name}": value for name, value in claims.items() if value is not None}
    conditions = {"StringEquals": equals}
    if args.repository_id:
        equals[f"{ISSUER}:sub"] = subjects(args)
    else:
        conditions["StringLike"] = {f"{ISSUER}:sub": subjects(args)}
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": provider_arn},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": conditions,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class GithubIdentity(Component):
    """An IAM role that jobs of one GitHub repository assume by their OIDC token, without a key.

    Creates: an OIDC provider for GitHub, unless `providerArn` is set. A role whose trust policy names the audience, the
    exact subject, the numeric ids of owner and repository, and the ref or the environment. The policies of the role.
    A session for purpose deploy may last two hours, and one for purpose preview one hour.
    Costs: nothing.
    Does not: create a key, or trust another repository of the owner unless `allowOrganization` is true. It does not set
    the form of the subject on GitHub: run the API call of docs/guides/github-identity.md once for each repository. It
    does not create the environment on GitHub. Use one identity for previews and another one for deployments.
    Replaces on change of: nothing. All changes are in place, except of the account's OIDC provider.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:GithubIdentity"
    ARGS: ClassVar[type[Args]] = GithubIdentityArgs
    EXAMPLE: ClassVar[dict[str, Any]] = GithubTrust.EXAMPLE

    role_arn: pulumi.Output[str]
    """ARN of the role, for role-to-assume of aws-actions/configure-aws-credentials."""
    provider_arn: pulumi.Output[str]
    """ARN of the OIDC provider, for providerArn of another identity in the account."""
    subject: pulumi.Output[str]
    """Subjects of the tokens that the role trusts, separated by spaces."""

    def __init__(self, name: str, args: GithubIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        tags = merge(args.tags, {"gpu-ci-pool": name})
        if args.provider_arn is None:
            # AWS needs no thumbprint for GitHub: it trusts the issuer's certificate by its own list of authorities
            # (docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc_verify-thumbprint.html).
            self.provider_arn = aws.iam.OpenIdConnectProvider(
                f"{name}-provider",
                url=f"https://{ISSUER}",
                client_id_lists=[AUDIENCE],
                tags=tags,
                opts=self.child(),
            ).arn
        else:
            self.provider_arn = pulumi.Output.from_input(args.provider_arn)
        role = aws.iam.Role(
            f"{name}-role",
            description=f"jobs on GitHub that {args.purpose}",
            assume_role_policy=self.provider_arn.apply(lambda arn: trust_policy(args, arn)),
            max_session_duration=DEPLOY_SESSION_SEC if args.purpose == "deploy" else None,
            tags=tags,
            opts=self.child(),
        )
        granted = [
            aws.iam.RolePolicy(f"{name}-policy-{key}", role=role.name, policy=document, opts=self.child())
            for key, document in sorted(args.policies.items())
        ]
        # The output depends on the policies, so that jobs get the role only when its policies exist.
        self.role_arn = pulumi.Output.all(role.arn, *(each.id for each in granted)).apply(lambda made: str(made[0]))
        self.subject = pulumi.Output.from_input(" ".join(subjects(args)))
        self.register()
