"""The manager's configuration: reads and validates the output of `pulumi stack output manager --json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from .decision.jobs import is_of_another
from .model import Job, OtherPool, Pool, Rung

Number = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value)
]
# Copied from gpu_ci/gcp/resource_names.py, because that module loads Pulumi's SDK.
_ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
_TEMPLATE = r"(^|/)regions/[a-z0-9-]+/instanceTemplates/[^/]+$"
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class ConfigError(Exception):
    """The configuration is invalid. The text names each mistake and contains no secret."""


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class RungConfig(_Model):
    """One place where the manager requests machines."""

    zone: str = Field(pattern=_ZONE)
    """A zone, such as us-central1-a."""
    machine_type: str = Field(min_length=1)
    """A machine type, such as g2-standard-8."""
    market: str = Field(pattern=r"^(spot|standard|reservation|flex-start)$")
    """The market of the machine: spot, standard, reservation or flex-start."""
    gpu: str = ""
    """Google's accelerator type, such as nvidia-l4."""
    usd_per_hour: float | None = Field(default=None, ge=0)
    """The price of one machine."""
    template: str = Field(default="", pattern=rf"^$|{_TEMPLATE}")
    """The self link of this rung's regional instance template, if it differs from the pool's."""


class PoolConfig(_Model):
    """A pool on Compute Engine."""

    name: Name
    """The name of the pool: 1 to 40 lower-case letters, digits and dashes."""
    project: str = Field(min_length=1)
    """The id of the Google Cloud project."""
    template: str = Field(pattern=_TEMPLATE)
    """The self link of the regional instance template whose check passed."""
    max: int = Field(ge=1, le=1000)
    """The most machines at any time, 1 to 1000."""
    labels: list[str] = Field(min_length=1, max_length=100)
    """Labels of the runners, 1 to 100."""
    runner_group: str = "Default"
    """The runner group that the runners join."""
    boot_sec: int = Field(default=1500, ge=60)
    """Seconds from the start of a machine to its registered runner, at least 60."""
    idle_sec: int = Field(default=600, ge=1)
    """Seconds that a runner waits for a job, at least 1."""
    rungs: list[RungConfig] = Field(min_length=1)
    """The places where the manager requests machines, in order."""
    price_ceiling_usd: float | None = Field(default=None, gt=0)
    """The highest price of a machine, in USD per hour."""
    registered_by: Literal["machine", "manager"] = "machine"
    """The program that registers the runners: machine or manager."""
    wait_objective_sec: int | None = Field(default=None, ge=1)
    """Seconds that a job may wait for its runner before an alert counts it, at least 1."""
    standby: int = Field(default=0, ge=0, le=1000)
    """The number of stopped machines that wait for jobs, 0 to max. It needs registeredBy: manager."""

    @model_validator(mode="after")
    def _standby(self) -> PoolConfig:
        if self.standby > self.max:
            raise ValueError(f"standby: {self.standby} is more than max, which is {self.max}")
        if self.standby and self.registered_by != "manager":
            raise ValueError(
                "standby: needs registeredBy: manager, because a machine that registers itself cannot wait stopped"
            )
        return self

    def plain(self) -> Pool:
        """Return the pool as the type that the control loop uses."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        rungs = tuple(Rung(**rung.model_dump()) for rung in self.rungs)
        return Pool(**{**fields, "labels": frozenset(label.lower() for label in self.labels), "rungs": rungs})


class OtherPoolConfig(_Model):
    """A pool of another manager of the stack."""

    manager: Name
    """The name of that manager."""
    labels: list[str] = Field(min_length=1, max_length=100)
    """Labels of its runners, 1 to 100."""
    runner_group: str = "Default"
    """The runner group that its runners join."""

    def plain(self) -> OtherPool:
        """Return the pool as the type that the control loop uses."""
        return OtherPool(self.manager, frozenset(label.lower() for label in self.labels), self.runner_group)


class GithubConfig(_Model):
    """The GitHub organization and the manager's App."""

    owner: str = Field(min_length=1)
    """The login of the organization."""
    app_id: Number
    """The id of the manager's App."""
    installation_id: Number
    """The id of the App's installation in the organization."""
    private_key: str = ""
    """The Secret Manager secret that holds the App's key. The manager itself reads the key from a file."""
    api_url: str = "https://api.github.com"
    """The address of GitHub's API."""


class Config(_Model):
    """The configuration of one manager."""

    name: Name
    """The name of the manager. The manager changes only machines whose label gpu-ci-manager has this name."""
    github: GithubConfig
    """The organization, and the App as which the manager authenticates."""
    pools: list[PoolConfig] = Field(min_length=1)
    """The pools on Compute Engine."""
    other_pools: list[OtherPoolConfig] = []
    """The pools of the other managers of the stack."""

    @model_validator(mode="after")
    def _each_once(self) -> Config:
        names = [pool.name for pool in self.pools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"pools: two pools have the name {', '.join(twice)}")
        return self

    @property
    def managers(self) -> int:
        """The number of managers of the stack, which share GitHub's limits."""
        return 1 + len({each.manager for each in self.other_pools})

    def is_of_another(self) -> Callable[[Job], bool]:
        """Return a function that is True for a job for which another manager of the stack starts the machine."""
        pools, others = [each.plain() for each in self.pools], [each.plain() for each in self.other_pools]
        return lambda job: is_of_another(job, self.name, pools, others)


def read(file: Path) -> Config:
    """Return the configuration in a file.

    Raises:
        ConfigError: The text names the file and each mistake.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read\n  got: {error.strerror}\n  hint: {_HINT}") from None
    return parse(content, str(file))


def parse(content: bytes, file: str) -> Config:
    """Return the configuration in the content of a file or an object, whose name is `file`.

    Raises:
        ConfigError: The text names the file and each mistake.
    """
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ConfigError(f"{file}: is not valid JSON\n  got: {error}\n  hint: {_HINT}") from None
    try:
        return Config.model_validate(value)
    except ValidationError as error:
        raise ConfigError(_report(error, file)) from None


_HINT = "pulumi stack output manager --json > manager.json"


def _report(error: ValidationError, file: str) -> str:
    """Return each mistake in the format of stack file errors, with the command that writes the file again."""
    # Imported here because it loads Pulumi's SDK, which a valid configuration does not need.
    from gpu_ci.errors import report
    from gpu_ci.validation_errors import explain

    problems = [replace(each, expected=each.expected.rstrip(".")) for each in explain(error, Config)]
    problems[-1] = replace(problems[-1], hint=problems[-1].hint or _HINT)
    return report(file, problems)
