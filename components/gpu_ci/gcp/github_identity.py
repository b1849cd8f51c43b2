"""The component GithubIdentity on Google Cloud: a service account without keys for the jobs of a GitHub repository."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from .. import naming
from ..args import Args, ComponentArgs, Input
from ..component import Component
from ..errors import invalid
from ..github_trust import ISSUER, Event, GithubTrust, allowed_events
from . import identities
from .resource_names import Project

# Discovery document iam v1, workloadIdentityPools.create, workloadIdentityPoolId: "4-32 characters, and may contain the
# characters [a-z0-9-]. The prefix `gcp-` is reserved". This pattern also requires a letter first, as Google's examples.
_POOL_ID = r"^[a-z][a-z0-9-]{2,30}[a-z0-9]$"
_POOL_ID_MOST = 32

# google.subject "cannot exceed 127 characters" (discovery document iam v1, attributeMapping). GitHub's own subject can
# be longer, because it has the names of owner, repository and environment. The ids of the repository and the run are
# short. Audit logs show the subject, so they show which run used the identity.
_SUBJECT = 'assertion.repository_id + ":" + assertion.run_id'


def _pool_id(value: str) -> str:
    if value.startswith("gcp-"):
        raise invalid(
            "begins with gcp-, which Google reserves",
            "reserved-name",
            expected="4 to 32 lower case letters, digits and -",
        )
    return value


def _role(value: str) -> str:
    if value in ("roles/owner", "roles/editor"):
        raise invalid(
            "is a basic role, which permits far more than a job needs",
            "basic-role",
            safe_hint="grant a custom role, such as those of bootstrap/",
        )
    return value


class GithubIdentityArgs(GithubTrust, ComponentArgs):
    """The arguments of a GitHub identity on Google Cloud."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "roles"})

    events: list[Event] | None = Field(
        default=None,
        validate_default=True,
        description="the events whose runs may use the identity; by default push, schedule and workflow_dispatch, and "
        "for purpose preview also pull_request and merge_group",
    )
    pool_id: Annotated[str, Field(pattern=_POOL_ID), AfterValidator(_pool_id)] | None = Field(
        default=None,
        description="the id of the workload identity pool, by default made from the name and the stack; Google keeps "
        "the id of a deleted pool for 30 days",
    )
    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the identity")
    roles: dict[
        str,
        Input[
            Annotated[
                str,
                Field(pattern=r"^(roles/|(projects|organizations)/[^/]+/roles/)[A-Za-z0-9_.]+$"),
                AfterValidator(_role),
            ]
        ],
    ] = Field(default={}, description="the roles of the identity in the project, each under a short name of its own")

    @field_validator("events")
    @classmethod
    def _events(cls, value: list[Event] | None, info: ValidationInfo) -> list[Event]:
        return allowed_events(value, info.data.get("purpose"))


def condition(args: GithubIdentityArgs) -> str:
    """Return the condition on the claims of a token, in the Common Expression Language (CEL).

    If a token lacks a claim of the condition, CEL reports an error, and Google refuses the token.
    """
    claims = {
        "repository_owner_id": args.owner_id,
        "repository_id": args.repository_id,
        "ref": args.ref,
        "environment": args.environment,
        "job_workflow_ref": args.job_workflow_ref,
    }
    # The validators refuse quotes and backslashes, so the values need no escapes.
    exact = [f'assertion.{name} == "{value}"' for name, value in claims.items() if value is not None]
    events = ", ".join(f'"{event}"' for event in args.events or ())
    return " && ".join([*exact, f"assertion.event_name in [{events}]"])


class GithubIdentity(Component):
    """A service account that jobs of one GitHub repository use by their OIDC token, without a key.

    Creates: a workload identity pool with one provider for GitHub, whose condition names the numeric ids of owner and
    repository, the ref or the environment, and the events. A service account with `roles` in the project. Permission
    for the jobs of that repository to use that service account.
    Costs: nothing.
    Does not: create a key, or trust another repository of the owner unless `allowOrganization` is true. It does not
    create the environment on GitHub: without protection rules there, each branch of the repository can use an
    environment. Use one identity for previews and another one for deployments.
    Replaces on change of: the pool and its provider for poolId. Google keeps the id of a deleted pool for 30 days and
    refuses it for a new pool. All other changes are in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:GithubIdentity"
    ARGS: ClassVar[type[Args]] = GithubIdentityArgs
    EXAMPLE: ClassVar[dict[str, Any]] = GithubTrust.EXAMPLE

    workload_identity_provider: pulumi.Output[str]
    """Resource name of the provider, for workload_identity_provider of google-github-actions/auth."""
    service_account_email: pulumi.Output[str]
    """Service account of the jobs, for service_account of google-github-actions/auth."""
    condition: pulumi.Output[str]
    """Condition on the claims of a token."""

    def __init__(self, name: str, args: GithubIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        stack = pulumi.get_stack()
        pool = gcp.iam.WorkloadIdentityPool(
            f"{name}-pool",
            project=args.project,
            workload_identity_pool_id=args.pool_id or naming.fit(f"gh-{name}-{stack}", _POOL_ID_MOST),
            display_name=f"GitHub {args.purpose}",
            description=f"jobs on GitHub that {args.purpose}",
            opts=self.child(),
        )
        provider = gcp.iam.WorkloadIdentityPoolProvider(
            f"{name}-provider",
            project=args.project,
            workload_identity_pool_id=pool.workload_identity_pool_id,
            workload_identity_pool_provider_id="github",
            display_name="GitHub Actions",
            attribute_mapping={
                "google.subject": _SUBJECT,
                "attribute.repository_id": "assertion.repository_id",
                "attribute.repository_owner_id": "assertion.repository_owner_id",
            },
            attribute_condition=condition(args),
            oidc={"issuer_uri": f"https://{ISSUER}"},
            opts=self.child(),
        )
        account = identities.service_account(
            f"{name}-account", "gh", name, f"GitHub {args.purpose} {name}", args.project, self.child()
        )
        # The condition of the provider already limits the repository. The member repeats the limit, in case a user adds
        # a second provider to the pool: its tokens then cannot use this account.
        attribute = (
            f"repository_id/{args.repository_id}" if args.repository_id else f"repository_owner_id/{args.owner_id}"
        )
        user = gcp.serviceaccount.IAMMember(
            f"{name}-user",
            service_account_id=account.name,
            role="roles/iam.workloadIdentityUser",
            member=pulumi.Output.concat("principalSet://iam.googleapis.com/", pool.name, f"/attribute.{attribute}"),
            opts=self.child(),
        )
        for key, role in sorted(args.roles.items()):
            gcp.projects.IAMMember(
                f"{name}-role-{key}",
                project=args.project,
                role=role,
                member=pulumi.Output.concat("serviceAccount:", account.email),
                opts=self.child(),
            )
        # The output depends on the permission, so that jobs get the provider's name only when they may use the account.
        self.workload_identity_provider = pulumi.Output.all(provider.name, user.id).apply(lambda made: str(made[0]))
        self.service_account_email = account.email
        self.condition = pulumi.Output.from_input(condition(args))
        self.register()
