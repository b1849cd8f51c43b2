"""Parts of a Cloud Build pool's arguments that are models of their own: its network, registry and triggers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ...args import Args, Input, Integer, StrictBool
from ..resource_names import NetworkAttachment, NumberedNetwork
from . import rules

Text = Annotated[str, Field(min_length=1)]


class PeeredNetwork(Args):
    """Workers in a VPC network of yours, peered with Google's own (private services access has to be set up on it)."""

    kind: Literal["peered"] = Field(description="the workers' network is peered with yours")
    network: Input[NumberedNetwork] = Field(
        description="the network, its project by number: projects/<number>/global/networks/<name> "
        "(gcloud projects describe <id> --format='value(projectNumber)')",
        examples=["projects/123456789012/global/networks/ci"],
    )
    ip_range: str = Field(
        default="/24",
        validate_default=True,
        description="the workers' part of the range reserved for Google, such as /24 or 192.168.0.0/24; at least /29",
    )

    @field_validator("ip_range")
    @classmethod
    def _ip_range(cls, value: str) -> str:
        return rules.ip_range(value)


class PrivateServiceConnect(Args):
    """Workers with an interface in a subnetwork of yours, through a network attachment; refused for now."""

    kind: Literal["private-service-connect"] = Field(
        description="the workers have an interface in your network; refused for now, as pulumi-gcp does not send it"
    )
    network_attachment: Input[NetworkAttachment] = Field(
        description="the attachment, in the pool's region, as "
        "projects/<project>/regions/<region>/networkAttachments/<name>"
    )
    route_all_traffic: StrictBool = Field(
        default=False, description="whether all traffic goes through your network, not only that to private addresses"
    )


class RegistrySettings(Args):
    """What becomes of the images in the pool's registry."""

    keep_most_recent: Integer = Field(
        default=10, ge=1, le=1000, description="how many versions of each image stay whatever their age, 1 to 1000"
    )
    delete_untagged_after_days: Integer = Field(
        default=14, ge=1, le=3650, description="days after which other versions without a tag are deleted, 1 to 3650"
    )
    scanning: StrictBool = Field(
        default=False,
        description="whether images are scanned for vulnerabilities, which Google bills by the image, where the "
        "project has the Container Scanning API on",
    )


class PushEvent(Args):
    """Commits pushed to branches."""

    kind: Literal["push"] = Field(description="commits pushed to a branch")
    branch: Text = Field(description="branches, as a regular expression (RE2), such as ^main$")

    @field_validator("branch")
    @classmethod
    def _branch(cls, value: str) -> str:
        return rules.ref(value)


class TagEvent(Args):
    """Tags pushed."""

    kind: Literal["tag"] = Field(description="a tag is pushed")
    tag: Text = Field(description="tags, as a regular expression (RE2), such as ^v")

    @field_validator("tag")
    @classmethod
    def _tag(cls, value: str) -> str:
        return rules.ref(value)


class PullRequestEvent(Args):
    """Pull requests opened or updated. Their builds may read from the registry, and write nothing to it."""

    kind: Literal["pull-request"] = Field(description="a pull request is opened or updated")
    branch: Text = Field(description="branches it goes into, as a regular expression (RE2), such as ^main$")
    comment_control: Literal[
        "COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY", "COMMENTS_ENABLED", "COMMENTS_DISABLED"
    ] = Field(
        default="COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY",
        description="whose pull requests are built only once somebody with write access has commented /gcbrun",
    )

    @field_validator("branch")
    @classmethod
    def _branch(cls, value: str) -> str:
        return rules.ref(value)


class DockerStep(Args):
    """Builds an image from a Dockerfile and pushes it to the pool's registry; on a pull request it only builds."""

    kind: Literal["docker"] = Field(description="build an image")
    # distribution/reference's path components, of which Artifact Registry takes any number.
    image: str = Field(
        pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*$",
        description="the image's name in the registry, such as kernels; its tag is the commit, and the git tag if any",
    )
    dockerfile: Text = Field(default="Dockerfile", description="the Dockerfile, from the top of the repository")
    context: Text = Field(default=".", description="the folder that is built, from the top of the repository")
    target: Text | None = Field(default=None, description="the stage to build; by default the last")
    build_args: dict[str, str] = Field(default={}, description="build arguments by name; nothing secret")
    cache: StrictBool = Field(
        default=True,
        description="whether layers are kept in the registry, in an image of their own, for the next build",
    )


class RunStep(Args):
    """Runs one command in a container."""

    kind: Literal["run"] = Field(description="run a command")
    image: Text = Field(description="the image to run it in, such as python:3.13-slim")
    args: list[str] = Field(default=[], description="arguments for the image's entrypoint")
    entrypoint: Text | None = Field(default=None, description="what to run in the place of the image's entrypoint")
    script: Text | None = Field(
        default=None, description="a shell script, in the place of args and entrypoint; substitutions do not reach it"
    )
    env: dict[str, str] = Field(default={}, description="environment variables by name; nothing secret")
    dir: Text | None = Field(default=None, description="the folder to run in, from the top of the repository")

    @field_validator("script")
    @classmethod
    def _script(cls, value: str | None, info: ValidationInfo) -> str | None:
        return rules.run_step(value, info.data)


class BuildFile(Args):
    """A build file in the repository.

    It has to name the pool and the log mode itself: options: {pool: {name: $_POOL}, logging: CLOUD_LOGGING_ONLY}.
    """

    kind: Literal["file"] = Field(description="the repository has a build file")
    filename: Text = Field(
        default="cloudbuild.yaml",
        description="the file, from the top of the repository; it names $_POOL and a log mode under options",
    )


class BuildSteps(Args):
    """Steps that stand here, run one after the other."""

    kind: Literal["steps"] = Field(description="the steps stand here")
    steps: list[Annotated[DockerStep | RunStep, Field(discriminator="kind")]] = Field(
        min_length=1, max_length=300, description="what to do, in this order"
    )
    # cloud.google.com/build/docs/build-config-file-schema, timeout: 60 minutes unless given, at most 24 hours.
    timeout_sec: Integer = Field(default=3600, ge=60, le=86400, description="seconds the build may take, 60 to 86400")


class BuildTrigger(Args):
    """A build that an event in a GitHub repository starts."""

    # An owner as GitHub's sign-up takes it, and a repository name as its API does.
    repository: str = Field(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]{0,37}[A-Za-z0-9])?/[A-Za-z0-9._-]{1,100}$",
        description="the GitHub repository, owner/name; without repositoryResource it has to be connected to Cloud "
        "Build as 1st gen, in the pool's region",
    )
    repository_resource: str | None = Field(
        default=None,
        # Discovery document cloudbuild v2, Repository.name.
        pattern=r"^projects/[^/]+/locations/[^/]+/connections/[^/]+/repositories/[^/]+$",
        description="the resource name of the same repository where it is connected as 2nd gen: "
        "projects/<project>/locations/<region>/connections/<connection>/repositories/<name>",
        examples=["projects/acme-ci/locations/us-central1/connections/github/repositories/acme-kernels"],
    )
    event: PushEvent | TagEvent | PullRequestEvent = Field(discriminator="kind", description="what starts the build")
    build: BuildFile | BuildSteps = Field(discriminator="kind", description="what is done")
    included_files: list[Text] = Field(
        default=[], description="globs; it is built only when one of the changed files matches, such as src/**"
    )
    ignored_files: list[Text] = Field(
        default=[], description="globs; it is not built when all changed files match, such as docs/**"
    )
    approval: StrictBool = Field(
        default=False, description="whether somebody has to approve each build before it starts"
    )
    substitutions: dict[Annotated[str, AfterValidator(rules.substitution)], str] = Field(
        default={}, description="substitutions by name, such as _PYTHON, beside _POOL, _REGISTRY and _CACHE"
    )
