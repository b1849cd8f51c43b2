"""The settings of the bootstrap stack, checked before any resource is registered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import pulumi
from gpu_ci import naming
from gpu_ci.args import Args, StrictBool
from gpu_ci.errors import ArgsError, Problem, at_path, invalid, raise_problems
from gpu_ci.gcp.pool.rules import each_once
from gpu_ci.gcp.resource_names import Project
from gpu_ci.github_trust import NumericId, Purpose
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

KEY = "settings"
_KEY = re.compile(r"projects/([^/]+)/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_KEY_FORM = "projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>"


class Jobs(Args):
    """The jobs of one purpose. GithubIdentity checks the values."""

    environment: str | None = Field(default=None, description="the environment of the jobs on GitHub")
    ref: str | None = Field(default=None, description="the git ref of the jobs, such as refs/heads/main")
    job_workflow_ref: str | None = Field(default=None, description="the reusable workflow of the jobs")
    pool_id: str | None = Field(
        default=None,
        description="the id of the workload identity pool on Google Cloud; set it if the default id is already in use",
    )


class Preview(Jobs):
    """The jobs that preview. They read the state and decrypt its secrets, so no job of another ref is trusted."""

    ref: str | None = Field(
        default="refs/heads/main", description="the git ref of the jobs, such as refs/heads/main, which is the default"
    )


def _environments_once(jobs: list[Jobs]) -> list[Jobs]:
    each_once([each.environment or "" for each in jobs])
    return jobs


class Github(Args):
    """The repository on GitHub whose jobs get the identities."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}$")] = Field(
        default="OWNER/NAME", description="the repository as OWNER/NAME, for the commands of the output and for AWS"
    )
    owner_id: NumericId = Field(description="the numeric id of the organization or user")
    repository_id: NumericId | None = Field(default=None, description="the numeric id of the repository")
    allow_organization: StrictBool = Field(default=False, description="whether to trust every repository of the owner")
    deploy: Annotated[
        list[Jobs],
        BeforeValidator(lambda value: [value] if isinstance(value, dict) else value),
        AfterValidator(_environments_once),
    ] = Field(min_length=1, max_length=8, description="the jobs that deploy, one entry for each environment")
    preview: Preview = Field(description="the jobs that preview")

    def identities(self) -> Iterator[tuple[str, Purpose, Jobs]]:
        """Yield the name, the purpose and the jobs of each identity."""
        for number, jobs in enumerate(self.deploy):
            # The name of the first does not depend on its environment, so that other entries can follow it later.
            yield naming.fit(f"deploy-{jobs.environment}", 20) if number else "deploy", "deploy", jobs
        yield "preview", "preview", self.preview


class Aws(Args):
    """The settings for AWS. The account is the account of the caller's credentials."""

    region: Annotated[str, Field(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$")] = Field(
        description="the region of the provider and, without a Google Cloud project, of the state bucket and its key"
    )
    provider_arn: str | None = Field(
        default=None, description="the ARN of the account's OIDC provider for GitHub, if the account has one"
    )
    subject_claim: Literal["template", "immutable"] = Field(
        default="template", description="the form of the subject in the tokens of the repository; see GithubIdentity"
    )


class Settings(Args):
    """All settings of the bootstrap stack."""

    project: Project = Field(default="", description="the id of the Google Cloud project; empty for AWS alone")
    location: Annotated[str, Field(pattern=r"^(asia|eu|us|[a-z]+-[a-z]+[0-9]+)$")] = Field(
        default="",
        description="the location of the state bucket and of the key: a region such as us-central1, or asia, eu or us; "
        "required for a Google Cloud project",
    )
    github: Github = Field(description="the repository on GitHub")
    signing_keys: Annotated[list[str], AfterValidator(each_once)] = Field(
        default=[],
        max_length=20,
        description="keys of the project in Cloud KMS that sign images, as "
        "projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>; by default none",
    )
    aws: Aws | None = Field(
        default=None,
        description="roles in an AWS account and, without a Google Cloud project, the state; by default none",
    )

    @field_validator("signing_keys")
    @classmethod
    def _signing_keys(cls, values: list[str], info: ValidationInfo) -> list[str]:
        problems = []
        for number, key in enumerate(values):
            found = _KEY.fullmatch(key)
            if not found:
                hint = "the name of the key, without cryptoKeyVersions"
                problems.append(
                    at_path(invalid("is not a key", "not-a-kms-key", expected=_KEY_FORM, hint=hint), key, number)
                )
            elif found[1] != (info.data.get("project") or found[1]):
                # Google Cloud documentation "Create and manage custom roles": a role is for resources of its project.
                hint = "grant the deployer roles/cloudkms.admin on the key yourself, and remove it here"
                problems.append(
                    at_path(invalid(f"is in the project {found[1]}", "key-of-other-project", hint=hint), key, number)
                )
        raise_problems(problems)
        return values

    @model_validator(mode="after")
    def _of_google(self) -> Self:
        for name, value in {"location": self.location, "signing_keys": self.signing_keys}.items():
            if value and not self.project:
                error = invalid("is for Google Cloud", "only-for-google", safe_hint="set gcp:project, or remove it")
                raise_problems([at_path(error, value, name)])
        if self.project and not self.location:
            error = invalid("is missing", "missing", safe_hint="a region such as us-central1, or asia, eu or us")
            raise_problems([at_path(error, None, "location")])
        return self


def load() -> Settings:
    """Return the settings of the stack. Raise ArgsError with every problem."""
    project = pulumi.Config("gcp").get("project")
    given: Any = pulumi.Config().get_object(KEY)
    place = f"{pulumi.get_project()}:{KEY}"
    file = f"Pulumi.{pulumi.get_stack()}.yaml"
    problems = []
    if not project and not (isinstance(given, dict) and given.get("aws")):
        problems.append(
            Problem(
                "gcp:project",
                "is missing",
                hint="the id of the Google Cloud project, such as acme-ci; for AWS alone, the settings have aws",
                rule="missing",
            )
        )
    if not isinstance(given, dict):
        problems.append(
            Problem(
                place,
                "is missing" if given is None else "is not an object",
                hint="docs/start/bootstrap.md",
                rule="missing",
            )
        )
    elif "project" in given:
        problems.append(Problem(f"{place}.project", "is set by gcp:project", hint="remove it", rule="set-by-gpu-ci"))
    if problems:
        raise ArgsError(file, problems)
    try:
        return Settings(**({"project": project} if project else {}), **given)
    except ArgsError as error:
        raise ArgsError(file, [problem.under(place) for problem in error.problems]) from None
