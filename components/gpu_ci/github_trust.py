"""The GitHub Actions jobs that a cloud identity trusts, and the conditions on the claims of their OIDC tokens.

The claims are those of docs.github.com/en/actions/reference/security/oidc. Ids are numeric, because a name can be given
to another owner or repository later.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from .args import Args, StrictBool
from .errors import invalid

ISSUER = "token.actions.githubusercontent.com"
"""The issuer of the tokens, without https://."""

TEMPLATE_CLAIMS = ("repository_owner_id", "repository_id", "event_name")
"""The claims of the token's subject on GitHub, in this order, for roles on AWS with `subjectClaim: template`."""

Purpose = Literal["preview", "deploy"]
Event = Literal[
    "merge_group", "pull_request", "pull_request_target", "push", "release", "schedule", "workflow_dispatch"
]

_DEPLOY_EVENTS: tuple[Event, ...] = ("push", "schedule", "workflow_dispatch")
# pull_request_target is not a default: it runs with the repository's secrets, and often checks out the code of a fork.
EVENTS: dict[str, tuple[Event, ...]] = {
    "deploy": _DEPLOY_EVENTS,
    "preview": ("merge_group", "pull_request", *_DEPLOY_EVENTS),
}
"""The events of each purpose, if `events` is not set."""

# The characters with a special meaning in CEL strings, in IAM policies (*, ? and ${) or in git refs.
_RESERVED = re.compile(r"[\x00-\x1f\x7f\"'\\`*?$]")
_REF = re.compile(r"refs/(heads|tags)/[^\s:~^\[]+")
_WORKFLOW = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+/\.github/workflows/[^\s@:]+\.ya?ml@[^\s:]+")


def _numeric_id(value: Any) -> Any:
    """Return a numeric id as text. YAML passes a number for 123. A name, such as acme, is an error."""
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    text = str(int(value)) if is_whole else value
    if not isinstance(text, str) or not re.fullmatch(r"[1-9][0-9]{0,19}", text):
        raise invalid(
            "is not a numeric id of GitHub",
            "not-an-id",
            expected="digits, such as 9919",
            safe_hint="gh api users/OWNER --jq .id prints the id of an owner, and gh api repos/OWNER/NAME --jq .id the "
            "id of a repository",
        )
    return text


def set_subject(repository: str) -> str:
    """Return the command that makes the claims of TEMPLATE_CLAIMS the subject of a repository's tokens."""
    claims = " ".join(f"-f 'include_claim_keys[]={name}'" for name in TEMPLATE_CLAIMS)
    return f"gh api --method PUT repos/{repository}/actions/oidc/customization/sub -F use_default=false {claims}"


def variables(stack: str) -> dict[str, str]:
    """Return the variables on GitHub with the values of a stack, by the input of the workflow deploy-stack."""
    suffix = re.sub("[^A-Z0-9]", "_", stack.upper())
    prefixes = {
        "backend": "PULUMI_BACKEND",
        "google-provider": "GOOGLE_PROVIDER",
        "google-service-account": "GOOGLE_SERVICE_ACCOUNT",
        "aws-role": "AWS_ROLE",
    }
    return {name: f"{prefix}_{suffix}" for name, prefix in prefixes.items()}


NumericId = Annotated[str, BeforeValidator(_numeric_id)]


class GithubTrust(Args):
    """The fields that the identities of all clouds share: the jobs on GitHub that may use the identity."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "purpose": "deploy",
        "ownerId": "9919",
        "repositoryId": "1296269",
        "environment": "production",
    }

    purpose: Purpose = Field(
        description="what the identity is for: preview (reads, also for pull requests) or deploy (writes); use one "
        "identity for each"
    )
    owner_id: NumericId = Field(description="the numeric id of the organization or user that owns the repository")
    allow_organization: StrictBool = Field(
        default=False, description="whether to trust every repository of the owner, instead of one repository"
    )
    repository_id: NumericId | None = Field(
        default=None,
        validate_default=True,
        description="the numeric id of the repository whose jobs may use the identity; required unless "
        "allowOrganization is true",
    )
    ref: str | None = Field(
        default=None,
        description="the git ref of the run, such as refs/heads/main; a pattern is refused",
    )
    environment: str | None = Field(
        default=None,
        validate_default=True,
        description="the environment of the job, such as production; required unless ref is set",
    )
    job_workflow_ref: str | None = Field(
        default=None,
        description="the reusable workflow that the job must come from, as "
        "OWNER/NAME/.github/workflows/FILE.yaml@REF; by default any workflow",
    )

    @field_validator("repository_id")
    @classmethod
    def _one_repository(cls, value: str | None, info: ValidationInfo) -> str | None:
        whole = info.data.get("allow_organization")
        if value is None and whole is False:
            raise invalid(
                "is required, because without it every repository of the owner could use the identity",
                "missing",
                safe_hint="gh api repos/OWNER/NAME --jq .id prints the id; to trust every repository of the owner, set "
                "allowOrganization: true",
            )
        if value is not None and whole:
            raise invalid(
                "is set, but allowOrganization trusts every repository of the owner",
                "repository-and-organization",
                safe_hint="remove one of the two",
            )
        return value

    @field_validator("ref")
    @classmethod
    def _ref(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if value.startswith("refs/pull/"):
            raise invalid(
                "is the ref of one pull request",
                "pull-request-ref",
                safe_hint="for pull requests, set environment here and in the job of the workflow",
            )
        if not _REF.fullmatch(value) or _RESERVED.search(value):
            raise invalid(
                "is not the full name of a branch or tag",
                "not-a-ref",
                expected="such as refs/heads/main or refs/tags/v1",
            )
        return value

    @field_validator("environment")
    @classmethod
    def _environment(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            # If the ref is invalid, only its own problem is reported.
            if "ref" in info.data and info.data["ref"] is None:
                raise invalid(
                    "is required, because without ref or environment every branch could use the identity",
                    "missing",
                    safe_hint="set environment, or ref: refs/heads/main",
                )
            return None
        if not 1 <= len(value) <= 255 or _RESERVED.search(value):
            raise invalid(
                "is not a name of an environment that a condition can contain",
                "not-an-environment",
                expected="1 to 255 characters, without quotes, backslashes, control characters, *, ? and $",
            )
        return value

    @field_validator("job_workflow_ref")
    @classmethod
    def _workflow(cls, value: str | None) -> str | None:
        if value is not None and (not _WORKFLOW.fullmatch(value) or _RESERVED.search(value)):
            raise invalid(
                "is not a reusable workflow with its ref",
                "not-a-workflow",
                expected="such as acme/ci/.github/workflows/deploy.yaml@refs/heads/main",
            )
        return value


def allowed_events(value: list[Event] | None, purpose: Any) -> list[Event]:
    """Return the events of an identity. Raise an error for events that a purpose must not trust."""
    untrusted = sorted({"pull_request", "pull_request_target"} & set(value or ()))
    if purpose == "deploy" and untrusted:
        raise invalid(
            f"has {untrusted[0]}, which runs code before a review, but a deploy identity has write access",
            "untrusted-event",
            safe_hint="use an identity of purpose preview for pull requests",
        )
    if value is not None and not value:
        raise invalid(
            "is empty, so no job could use the identity", "too-few", safe_hint="remove the field to get the defaults"
        )
    return sorted(set(value)) if value else list(EVENTS.get(str(purpose), ()))
