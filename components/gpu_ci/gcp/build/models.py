"""The nested arguments of BuildPool, which image pipelines share: network, registry, triggers and build steps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ...args import Args, Input, Integer, StrictBool
from ..resource_names import NumberedNetwork
from . import rules

Text = Annotated[str, Field(min_length=1)]
# The format of the owner is from GitHub's sign-up page, and the format of the repository name from GitHub's API.
RepositoryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]{0,37}[A-Za-z0-9])?/[A-Za-z0-9._-]{1,100}$")]
# Discovery document cloudbuild v2, Repository.name.
RepositoryResource = Annotated[
    str, Field(pattern=r"^projects/[^/]+/locations/[^/]+/connections/[^/]+/repositories/[^/]+$")
]
_RESOURCE_EXAMPLE = "projects/acme-ci/locations/us-central1/connections/github/repositories/acme-kernels"


class PeeredNetwork(Args):
    """Workers in your VPC network, through peering with Google's network.

    Your network needs private services access.
    """

    kind: Literal["peered"] = Field(description="the workers' network is peered with yours")
    network: Input[NumberedNetwork] = Field(
        description="the network, with its project by number: projects/<number>/global/networks/<name> (gcloud "
        "projects describe <id> --format='value(projectNumber)')",
        examples=["projects/123456789012/global/networks/ci"],
    )
    ip_range: str = Field(
        default="/24",
        validate_default=True,
        description="the part of the reserved range that workers use, such as /24 or 192.168.0.0/24; at least /29",
    )

    @field_validator("ip_range")
    @classmethod
    def _ip_range(cls, value: str) -> str:
        return rules.ip_range(value)


class RegistrySettings(Args):
    """The retention and scanning of the images in the pool's registry."""

    keep_most_recent: Integer = Field(
        default=10, ge=1, le=1000, description="number of versions of each image to keep at any age, 1 to 1000"
    )
    delete_untagged_after_days: Integer = Field(
        default=14, ge=1, le=3650, description="days after which other untagged versions are deleted, 1 to 3650"
    )
    scanning: StrictBool = Field(
        default=False,
        description="whether to scan images for vulnerabilities if the project has the Container Scanning API "
        "enabled; Google bills this per image",
    )


class PushEvent(Args):
    """A push of commits to branches."""

    kind: Literal["push"] = Field(description="commits pushed to a branch")
    branch: Text = Field(description="branches, as a regular expression (RE2), such as ^main$")


class TagEvent(Args):
    """A push of tags."""

    kind: Literal["tag"] = Field(description="a tag is pushed")
    tag: Text = Field(description="tags, as a regular expression (RE2), such as ^v")


class PullRequestEvent(Args):
    """A pull request that is opened or updated. Its builds may read from the registry, but not write to it."""

    kind: Literal["pull-request"] = Field(description="a pull request is opened or updated")
    branch: Text = Field(description="target branches, as a regular expression (RE2), such as ^main$")
    comment_control: Literal[
        "COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY", "COMMENTS_ENABLED", "COMMENTS_DISABLED"
    ] = Field(
        default="COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY",
        description="authors whose pull requests are built only after a user with write access has commented /gcbrun",
    )


class ImageBuild(Args):
    """An image that is built from a Dockerfile of the repository."""

    # The path components of distribution/reference. Artifact Registry accepts any number of them.
    image: str = Field(
        pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*$",
        description="the image's name in the registry, such as kernels",
    )
    dockerfile: Text = Field(
        default="Dockerfile", description="the path of the Dockerfile from the root of the repository"
    )
    context: Text = Field(default=".", description="the build context folder, from the root of the repository")
    target: Text | None = Field(default=None, description="the stage to build; by default the last")
    build_args: dict[str, str] = Field(default={}, description="build arguments by name; no secrets")
    cache: StrictBool = Field(
        default=True,
        description="whether to cache layers in the registry, as a separate image, for the next build",
    )

    @field_validator("dockerfile", "context")
    @classmethod
    def _path(cls, value: str, info: ValidationInfo) -> str:
        return rules.path_in_repository(value, "images" if info.field_name == "context" else "images/Dockerfile")

    @field_validator("build_args")
    @classmethod
    def _build_args(cls, value: dict[str, str]) -> dict[str, str]:
        return rules.build_args(value)


class DockerStep(ImageBuild):
    """Builds an image from a Dockerfile and pushes it to the pool's registry.

    The tags of the image are the commit and the git tag, if any. The image of a pull request is not pushed.
    """

    kind: Literal["docker"] = Field(description="build an image")


class RunStep(Args):
    """Runs one command in a container."""

    kind: Literal["run"] = Field(description="run a command")
    image: Text = Field(description="the container image of the step, such as python:3.13-slim")
    args: list[str] = Field(default=[], description="arguments for the image's entrypoint")
    entrypoint: Text | None = Field(default=None, description="the command that replaces the image's entrypoint")
    script: Text | None = Field(
        default=None,
        description="a shell script, instead of args and entrypoint; Cloud Build does not replace substitutions in it",
    )
    env: dict[str, str] = Field(default={}, description="environment variables by name; no secrets")
    dir: Text | None = Field(default=None, description="the working folder, from the root of the repository")

    @field_validator("script")
    @classmethod
    def _script(cls, value: str | None, info: ValidationInfo) -> str | None:
        return rules.run_step(value, info.data)


class BuildFile(Args):
    """A build configuration file in the repository.

    The file must set the pool and the log mode: options: {pool: {name: $_POOL}, logging: CLOUD_LOGGING_ONLY}.
    """

    kind: Literal["file"] = Field(description="the repository contains a build configuration file")
    filename: Text = Field(
        default="cloudbuild.yaml",
        description="the path of the file from the root of the repository; its options must name $_POOL and a log mode",
    )


class BuildSteps(Args):
    """Build steps in the stack file, run one after the other."""

    kind: Literal["steps"] = Field(description="the stack file contains the steps")
    steps: list[Annotated[DockerStep | RunStep, Field(discriminator="kind")]] = Field(
        min_length=1, max_length=300, description="the steps, in the order in which they run"
    )
    # cloud.google.com/build/docs/build-config-file-schema, timeout: 60 minutes by default, at most 24 hours.
    timeout_sec: Integer = Field(
        default=3600, ge=60, le=86400, description="maximum duration of the build in seconds, 60 to 86400"
    )


class BuildTrigger(Args):
    """A build that an event in a GitHub repository starts."""

    repository: RepositoryName = Field(
        description="the GitHub repository, as owner/name; without repositoryResource, the repository must be "
        "connected to Cloud Build as 1st gen in the pool's region",
    )
    repository_resource: RepositoryResource | None = Field(
        default=None,
        description="the resource name of the same repository if it is connected as 2nd gen: "
        "projects/<project>/locations/<region>/connections/<connection>/repositories/<name>",
        examples=[_RESOURCE_EXAMPLE],
    )
    event: PushEvent | TagEvent | PullRequestEvent = Field(
        discriminator="kind", description="the event that starts the build"
    )
    build: BuildFile | BuildSteps = Field(
        discriminator="kind", description="the build: steps, or a build configuration file"
    )
    included_files: list[Text] = Field(
        default=[], description="globs, such as src/**; a build starts only if a changed file matches"
    )
    ignored_files: list[Text] = Field(
        default=[], description="globs, such as docs/**; no build starts if all changed files match"
    )
    approval: StrictBool = Field(default=False, description="whether a user must approve each build before it starts")
    substitutions: dict[Annotated[str, AfterValidator(rules.substitution)], str] = Field(
        default={},
        description="additional substitutions by name, such as _PYTHON; _POOL, _REGISTRY and _CACHE are always set",
    )
