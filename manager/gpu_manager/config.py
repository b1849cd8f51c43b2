"""The manager's configuration: what `pulumi stack output manager --json` prints, read and checked whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from .model import Pool, Rung

Number = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value)
]
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class ConfigError(Exception):
    """The configuration cannot be used; the text names each mistake, and no value of a secret."""


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class RungConfig(_Model):
    """One place to ask for a machine."""

    zone: str = Field(pattern=r"^[a-z]+-[a-z]+[0-9]+-[a-z]$")
    machine_type: str = Field(min_length=1)
    market: str = Field(pattern=r"^(spot|standard|reservation|flex-start)$")
    gpu: str = ""
    usd_per_hour: float | None = Field(default=None, ge=0)


class PoolConfig(_Model):
    """One pool on Compute Engine."""

    name: Name
    project: str = Field(min_length=1)
    template: str = Field(min_length=1)
    max: int = Field(ge=1, le=1000)
    labels: list[str] = Field(min_length=1, max_length=100)
    runner_group: str = "Default"
    boot_sec: int = Field(default=1500, ge=60)
    idle_sec: int = Field(default=600, ge=1)
    rungs: list[RungConfig] = Field(min_length=1)
    rerun_preempted: bool = True
    machines_per_job: int = Field(default=3, ge=1, le=100)
    price_ceiling_usd: float | None = Field(default=None, gt=0)

    def plain(self) -> Pool:
        """The same as the loop takes it."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        rungs = tuple(Rung(**rung.model_dump()) for rung in self.rungs)
        return Pool(**{**fields, "labels": frozenset(label.lower() for label in self.labels), "rungs": rungs})


class GithubConfig(_Model):
    """The organization, and the manager's App."""

    owner: str = Field(min_length=1)
    app_id: Number
    installation_id: Number
    private_key: str = ""
    """The secret of Secret Manager that holds the App's key. The manager itself reads a file."""
    api_url: str = "https://api.github.com"
    repositories: list[str] | None = None
    """Names of the repositories to look at; by default those of the pools' runner groups."""
    commit_statuses: bool = False
    """Whether a job that waits has its reason in a commit status. The App needs Commit statuses: read and write."""


class Config(_Model):
    """Everything."""

    name: Name
    """Of the manager: it touches only machines with this name in their label gpu-ci-manager."""
    github: GithubConfig
    pools: list[PoolConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_once(self) -> Config:
        names = [pool.name for pool in self.pools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"pools: {', '.join(twice)} is there twice")
        return self


def read(file: Path) -> Config:
    """The configuration in a file. ConfigError names the file and every mistake."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read\n  got: {error.strerror}\n  hint: {_HINT}") from None
    return parse(content, str(file))


def parse(content: bytes, file: str) -> Config:
    """The configuration that a file or an object holds. ConfigError names it and every mistake."""
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ConfigError(f"{file}: is no JSON\n  got: {error}\n  hint: {_HINT}") from None
    try:
        return Config.model_validate(value)
    except ValidationError as error:
        lines = [_line(file, each) for each in error.errors(include_url=False, include_context=False)]
        raise ConfigError("\n".join([*lines, f"  hint: {_HINT}"])) from None


_SHOWN_CHARACTERS = 100
_HINT = "pulumi stack output manager --json > manager.json"


def _line(file: str, error: Any) -> str:
    path = ".".join(str(to_camel(part) if isinstance(part, str) else part) for part in error["loc"]) or "all of it"
    given = error["input"]
    # A value that has the wrong place may be a key.
    shown = isinstance(given, int | float) or (isinstance(given, str) and len(given) <= _SHOWN_CHARACTERS)
    got = f"\n  got: {given!r}" if shown and error["type"] != "extra_forbidden" else ""
    return f"{file}: {path}: {error['msg']}{got}"
