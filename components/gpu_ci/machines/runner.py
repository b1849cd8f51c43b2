"""The arguments for the GitHub runner of a machine: its version, settings and registration."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, Self

from gpu_catalog import staleness
from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from .. import versions
from ..args import Args, Integer, PlainInput, StrictBool
from ..errors import at_path, invalid, raise_problems
from ..secret_manager import SecretName

_SHA256 = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, StringConstraints(pattern=_SHA256)]

RELEASES = "github.com/actions/runner/releases"


class ArchiveSums(Args):
    """SHA-256 checksums of the Linux archives of one runner release, from its release notes."""

    x64: Sha256 | None = Field(
        default=None,
        description="SHA-256 of actions-runner-linux-x64-<version>.tar.gz, as 64 lower-case hexadecimal digits",
    )
    arm64: Sha256 | None = Field(
        default=None,
        description="SHA-256 of actions-runner-linux-arm64-<version>.tar.gz, as 64 lower-case hexadecimal digits",
    )

    @field_validator("x64", "arm64", mode="before")
    @classmethod
    def _digits(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_SHA256, value):
            raise invalid(
                "is not a SHA-256 checksum",
                "not-a-checksum",
                expected="64 lower-case hexadecimal digits",
                safe_hint=f"copy the checksum from the release notes at {RELEASES}",
            )
        return value


class RunnerSettings(Args):
    """Settings of the GitHub runner of a machine, which runs one job: its version, Docker mode and time limits."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = Field(
        default=versions.RUNNER,
        description="the version of GitHub's runner, such as 2.338.0; GitHub rejects old versions",
    )
    sha256: ArchiveSums | None = Field(
        default=None,
        validate_default=True,
        description="the checksums of that version's archives; required for any version except the default version",
    )
    docker: Literal["none", "rootless", "rootful"] = Field(
        default="none",
        description="the Docker mode of a job: none, rootless (a daemon of the runner's user), or rootful (a job is "
        "root on its machine, and can read the App's private key if machines register their runners)",
    )
    idle_sec: Integer = Field(
        default=600, ge=60, le=86400, description="seconds that a machine waits for its job before it ends, 60 to 86400"
    )
    register_sec: Integer = Field(
        default=300,
        ge=60,
        le=1800,
        description="seconds for download, unpacking and registration of the runner together, 60 to 1800",
    )
    notice_grace_sec: Integer = Field(
        default=10,
        ge=0,
        le=12,
        description="seconds that a job has to save its work after a notice of preemption, if it watches the notice "
        "file, 0 to 12; a preempted VM is off after 30 s, and the end of the job and its report need 18 s",
    )

    @field_validator("version", mode="before")
    @classmethod
    def _without_v(cls, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(r"v[0-9]+\.[0-9]+\.[0-9]+", value):
            raise invalid(
                "starts with a v, but only tags of releases do",
                "version-with-v",
                expected=value[1:],
                hint=f"version: {value[1:]}",
            )
        return value

    @field_validator("version")
    @classmethod
    def _version(cls, value: str) -> str:
        floor = staleness.runner_floor(value)
        if floor:
            raise invalid(
                "is a version that GitHub no longer registers",
                "runner-too-old",
                expected=f"{floor} or later",
                hint=f"remove version to use {versions.RUNNER}",
            )
        if since := staleness.runner_refused(value):
            raise invalid(
                f"is a version to which GitHub gives no jobs since {since}",
                "runner-refused",
                hint=f"remove version to use {versions.RUNNER}",
            )
        return value

    @field_validator("sha256")
    @classmethod
    def _sha256(cls, value: ArchiveSums | None, info: ValidationInfo) -> ArchiveSums | None:
        version = info.data.get("version", versions.RUNNER)
        if value is None and version != versions.RUNNER:
            raise invalid(
                f"is missing; this package contains only the checksums of {versions.RUNNER}",
                "missing",
                expected="the checksums of the x64 archive, the arm64 archive, or both",
                hint=f"copy them from the release notes at {RELEASES}/tag/v{version}",
            )
        if value is not None and version == versions.RUNNER:
            raise_problems(
                [
                    at_path(
                        invalid(
                            f"is not the checksum of {version}, so every machine would reject the archive",
                            "wrong-checksum",
                            expected=versions.RUNNER_SHA256[name],
                            safe_hint="remove sha256, or set the version that these checksums belong to",
                        ),
                        given,
                        name,
                    )
                    for name, given in value
                    if given and given != versions.RUNNER_SHA256[name]
                ]
            )
        return value

    @property
    def archives(self) -> dict[str, str]:
        """The known checksums by architecture."""
        if self.sha256 is None:
            return dict(versions.RUNNER_SHA256)
        return {name: text for name, text in dict(self.sha256).items() if text}


class RunnerGithub(Args):
    """The registration of the machines' runners on GitHub. The App's key is given as the name of a secret.

    With a GitHub App, the machines register their runners themselves, and can read the App's key. Without an App, the
    runner manager registers the runners, and no machine can read a key.
    """

    owner: PlainInput[Annotated[str, Field(min_length=1, max_length=39)]] = Field(
        description="the organization, or the owner of the repository, such as acme"
    )
    app_id: PlainInput[Annotated[str, Field(pattern=r"^[A-Za-z0-9.]{1,40}$")]] | None = Field(
        default=None,
        description="the id or client id of the GitHub App as which machines register their runners; by default the "
        "runner manager registers the runners",
    )
    installation_id: PlainInput[Annotated[Integer, Field(ge=1)]] | None = Field(
        default=None, description="the number of the App's installation for that owner"
    )
    private_key: SecretName | None = Field(
        default=None,
        description="the secret in Secret Manager that holds the App's private key, as "
        "projects/<project>/secrets/<name>; the pool's machines get permission to read it",
    )
    runner_group: PlainInput[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default="Default", description="the name of the runner group"
    )
    repository: PlainInput[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        description="the repository of the runners, if machines register them; by default the runners belong to the "
        "organization",
    )
    api_url: PlainInput[Annotated[str, Field(pattern=r"^https://[^/\s?#]+(/[^\s?#]*[^\s?#/])?$")]] | None = Field(
        default=None,
        description="the URL of GitHub's API, if it is not api.github.com, such as https://github.example/api/v3",
    )

    public_repositories: StrictBool = Field(
        default=False,
        description="whether public repositories may use the runner group",
    )

    @model_validator(mode="after")
    def _whole_app(self) -> Self:
        given = {name: getattr(self, name) for name in _APP}
        wanted = [name for name in (*_APP, "repository") if getattr(self, name) is not None]
        missing = [to_camel(name) for name, value in given.items() if value is None]
        if missing and wanted:
            raise invalid(
                f"has {', '.join(to_camel(name) for name in wanted)} without {', '.join(missing)}",
                "incomplete-app",
                expected="appId, installationId and privateKey, or none of the three",
                safe_hint="without an App, the runner manager registers the runners, for organizations only",
            )
        if wanted and self.public_repositories:
            raise invalid(
                "has an App, but only the runner manager reads the approvals that publicRepositories needs",
                "public-pool",
                safe_hint="remove appId, installationId and privateKey",
            )
        return self

    @property
    def registered_by(self) -> Literal["machine", "manager"]:
        """Which program registers the runner: the machine, with a GitHub App, or the runner manager."""
        return "manager" if self.private_key is None else "machine"


_APP = ("app_id", "installation_id", "private_key")


class Registration(NamedTuple):
    """The registration data of a machine: GitHub settings, runner settings and labels."""

    github: RunnerGithub
    runner: RunnerSettings
    labels: list[str]
    warm_sec: int = 0
