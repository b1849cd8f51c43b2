"""The manager's configuration: reads and validates the output of `pulumi stack output manager --json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, create_model, model_validator

from . import suppliers
from .decision.jobs import is_of_another
from .model import Job, OtherPool, Pool
from .pool_config import DEFAULT, Model, Name, PoolConfig

Number = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value)
]


class ConfigError(Exception):
    """The configuration is invalid. The text names each mistake and contains no secret."""


class OtherPoolConfig(Model):
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


class GithubConfig(Model):
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


class Config(Model):
    """The configuration of one manager."""

    name: Name
    """The name of the manager. The manager changes only machines whose label gpu-ci-manager has this name."""
    github: GithubConfig
    """The organization, and the App as which the manager authenticates."""
    pools: Sequence[PoolConfig] = Field(min_length=1)
    """The pools, each with machines of one supplier."""
    other_pools: Sequence[OtherPoolConfig] = ()
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

    def pools_by_supplier(self) -> dict[str, list[Pool]]:
        """Return the pools of each supplier as the type that the control loop uses."""
        names = dict.fromkeys(pool.supplier for pool in self.pools)
        return {name: [pool.plain() for pool in self.pools if pool.supplier == name] for name in names}

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
    model = _model(value, file)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ConfigError(_report(error, file, model)) from None


def _model(value: Any, file: str) -> type[Config]:
    """Return the model of a configuration with these suppliers. Raises ConfigError if one is not installed."""
    pools = value.get("pools") if isinstance(value, dict) else None
    try:
        return _of_suppliers(tuple(dict.fromkeys(map(_supplier_of, pools if isinstance(pools, list) else ()))))
    except KeyError as error:
        known = ", ".join(suppliers.names())
        raise ConfigError(f"{file}: pools: unknown supplier\n  got: {error}\n  expected: one of {known}") from None


@cache
def _of_suppliers(names: tuple[str, ...]) -> type[Config]:
    """Return the model in which each pool has the form of its supplier. Raises KeyError for an unknown supplier."""
    models = [Annotated[suppliers.supplier(name).POOL, Tag(name)] for name in names or (DEFAULT,)]
    pool = Annotated[Union[tuple(models)], Discriminator(_supplier_of)] if len(models) > 1 else models[0]  # noqa: UP007
    about = Config.model_fields["pools"].description
    field = (list[pool], Field(min_length=1, description=about))  # type: ignore[valid-type]
    return create_model("Config", __base__=Config, pools=field)


def _supplier_of(pool: Any) -> str:
    return str(pool.get("supplier", DEFAULT)) if isinstance(pool, dict) else DEFAULT


_HINT = "pulumi stack output manager --json > manager.json"


def _report(error: ValidationError, file: str, model: type[Config]) -> str:
    """Return each mistake in the format of stack file errors, with the command that writes the file again."""
    # Imported here because it loads Pulumi's SDK, which a valid configuration does not need.
    from gpu_ci.errors import report
    from gpu_ci.validation_errors import explain

    problems = [replace(each, expected=each.expected.rstrip(".")) for each in explain(error, model)]
    problems[-1] = replace(problems[-1], hint=problems[-1].hint or _HINT)
    return report(file, problems)
