"""GitHub's runner on a machine: its release, its settings, and where it registers."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, Self

from gpu_catalog import staleness
from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from ... import versions
from ...args import Args, Integer, PlainInput
from ...errors import at_path, invalid, raise_problems
from ..resource_names import SecretName

_SHA256 = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, StringConstraints(pattern=_SHA256)]

RELEASES = "github.com/actions/runner/releases"


class ArchiveSums(Args):
    """SHA-256 of the Linux archives of one release of the runner, as its release notes have them."""

    x64: Sha256 | None = Field(
        default=None, description="64 lower-case hexadecimal digits, of actions-runner-linux-x64-<version>.tar.gz"
    )
    arm64: Sha256 | None = Field(
        default=None, description="64 lower-case hexadecimal digits, of actions-runner-linux-arm64-<version>.tar.gz"
    )

    @field_validator("x64", "arm64", mode="before")
    @classmethod
    def _digits(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_SHA256, value):
            raise invalid(
                "is no SHA-256",
                expected="64 lower-case hexadecimal digits",
                safe_hint=f"copy it from the notes of the release, at {RELEASES}",
            )
        return value


class RunnerSettings(Args):
    """GitHub's runner on a machine: which, what its job may use, and how long it waits. It takes one job."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = Field(
        default=versions.RUNNER,
        description="the version of GitHub's runner, such as 2.338.0; GitHub turns away what is too old",
    )
    sha256: ArchiveSums | None = Field(
        default=None,
        validate_default=True,
        description="the checksums of that version's archives; a version of one's own choice has to bring them",
    )
    docker: Literal["none", "rootless", "rootful"] = Field(
        default="none",
        description="what Docker a job has: none, rootless (a daemon of the runner's user), or rootful (a job is root "
        "on its machine, and can read the App's private key where machines register their runners)",
    )
    idle_sec: Integer = Field(
        default=600, ge=60, le=86400, description="seconds a machine waits for its job before it ends, 60 to 86400"
    )
    register_sec: Integer = Field(
        default=300,
        ge=60,
        le=1800,
        description="seconds that fetching, unpacking and registering the runner may take together, 60 to 1800",
    )

    @field_validator("version", mode="before")
    @classmethod
    def _without_v(cls, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(r"v[0-9]+\.[0-9]+\.[0-9]+", value):
            raise invalid(
                "begins with a v, as tags do", expected=value[1:], hint=f"without the v: version: {value[1:]}"
            )
        return value

    @field_validator("version")
    @classmethod
    def _version(cls, value: str) -> str:
        floor = staleness.runner_floor(value)
        if floor:
            raise invalid(
                "is a version that GitHub registers no more",
                expected=f"{floor} or newer",
                hint=f"leave version out, and it is {versions.RUNNER}",
            )
        return value

    @field_validator("sha256")
    @classmethod
    def _sha256(cls, value: ArchiveSums | None, info: ValidationInfo) -> ArchiveSums | None:
        version = info.data.get("version", versions.RUNNER)
        if value is None and version != versions.RUNNER:
            raise invalid(
                f"is missing, and only that of {versions.RUNNER} is known here",
                expected="the checksums of the archives, x64 or arm64 or both",
                hint=f"they stand in the notes of {RELEASES}/tag/v{version}",
            )
        if value is not None and version == versions.RUNNER:
            raise_problems(
                [
                    at_path(
                        invalid(
                            f"is not that of {version}, which every machine would refuse",
                            expected=versions.RUNNER_SHA256[name],
                            safe_hint="leave sha256 out, or give the version that it is of",
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
        """The checksums by architecture, as far as they are known."""
        if self.sha256 is None:
            return dict(versions.RUNNER_SHA256)
        return {name: text for name, text in dict(self.sha256).items() if text}


class RunnerGithub(Args):
    """Where on GitHub the runners of machines are registered, and by whom. A key is named, and never given.

    With an App the machines register their runners themselves, and can read its key. Without one the runner manager
    does it, and no machine can read any key.
    """

    owner: PlainInput[Annotated[str, Field(min_length=1, max_length=39)]] = Field(
        description="the organization, or the owner of the repository, such as acme"
    )
    app_id: PlainInput[Annotated[str, Field(pattern=r"^[A-Za-z0-9.]{1,40}$")]] | None = Field(
        default=None,
        description="the id of the GitHub App that machines register as, or its client id; by default the runner "
        "manager registers the runners",
    )
    installation_id: PlainInput[Annotated[Integer, Field(ge=1)]] | None = Field(
        default=None, description="the number of that App's installation there"
    )
    private_key: SecretName | None = Field(
        default=None,
        description="the secret of Secret Manager that App's private key lies in, as "
        "projects/<project>/secrets/<name>; the pool's machines are allowed to read it",
    )
    runner_group: PlainInput[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default="Default", description="the name of the group the runners join"
    )
    repository: PlainInput[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        description="the one repository the runners are of, where machines register them; by default they are the "
        "organization's",
    )
    api_url: PlainInput[Annotated[str, Field(pattern=r"^https://[^/\s?#]+(/[^\s?#]*[^\s?#/])?$")]] | None = Field(
        default=None, description="GitHub's API, where it is another one, such as https://github.example/api/v3"
    )

    @model_validator(mode="after")
    def _whole_app(self) -> Self:
        given = {name: getattr(self, name) for name in _APP}
        wanted = [name for name in (*_APP, "repository") if getattr(self, name) is not None]
        missing = [to_camel(name) for name, value in given.items() if value is None]
        if missing and wanted:
            raise invalid(
                f"has {', '.join(to_camel(name) for name in wanted)} without {', '.join(missing)}",
                expected="appId, installationId and privateKey, or none of them",
                safe_hint="without an App the runner manager registers the runners, and those of an organization alone",
            )
        return self

    @property
    def registered_by(self) -> Literal["machine", "manager"]:
        """Who asks GitHub for the runners."""
        return "manager" if self.private_key is None else "machine"


_APP = ("app_id", "installation_id", "private_key")


class Registration(NamedTuple):
    """What a machine needs to register its runner."""

    github: RunnerGithub
    runner: RunnerSettings
    labels: list[str]
