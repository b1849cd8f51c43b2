"""The manager's configuration: reads and validates the output of `pulumi stack output manager --json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from gpu_common.scale_set_rules import OWN_RUNNERS, PRIORITIES, wrong_labels
from gpu_common.secret_patterns import redact
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.dataclasses import dataclass

from . import suppliers
from .budgets import Team
from .decision.jobs import is_of_another
from .model import CONFIGURED, DEFAULT_SUPPLIER, Job, Name, OtherPool, Pool

Number = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value)
]


class ConfigError(Exception):
    """The configuration is invalid. The text names each mistake and contains no secret."""


class GithubConfig(BaseModel):
    """The GitHub organization and the manager's App."""

    model_config = ConfigDict(**CONFIGURED, frozen=True)

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


class Config(BaseModel):
    """The configuration of one manager."""

    model_config = ConfigDict(**CONFIGURED, frozen=True)

    name: Name
    """The name of the manager. The manager changes only machines whose label gpu-ci-manager has this name."""
    github: GithubConfig
    """The organization, and the App as which the manager authenticates."""
    pools: Sequence[Pool] = Field(min_length=1)
    """The pools, each with machines of one supplier."""
    other_pools: Sequence[OtherPool] = ()
    """The pools of the other managers of the stack."""

    teams: Sequence[Team] = ()
    """The teams with a budget."""
    demand: Literal["sweep", "scaleSets"] = "sweep"
    """How the manager finds jobs: sweep or scaleSets."""

    @model_validator(mode="after")
    def _each_once(self) -> Config:
        names = [pool.name for pool in self.pools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"pools: two pools have the name {', '.join(twice)}")
        return self

    @model_validator(mode="after")
    def _for_scale_sets(self) -> Config:
        if self.demand == "sweep":
            return self
        from gpu_ci.errors import at_path, invalid, raise_problems

        wrong = []
        for at, pool in enumerate(self.pools):
            others = [(each.name, each.labels, each.runner_group) for each in self.pools if each is not pool]
            others += [(each.manager, each.labels, each.runner_group) for each in self.other_pools]
            in_group = [(name, labels) for name, labels, group in others if group == pool.runner_group]
            fields = {
                "labels": (", ".join(sorted(pool.labels)), wrong_labels(pool.labels, in_group)),
                "registeredBy": (pool.registered_by, None if pool.registered_by == "manager" else OWN_RUNNERS),
                "priorities": ({}, PRIORITIES if pool.priorities else None),
            }
            wrong += [
                at_path(invalid(found.text, "no-scale-set", safe_hint=found.hint), got, "pools", at, field)
                for field, (got, found) in fields.items()
                if found
            ]
        raise_problems(wrong)
        return self

    @property
    def managers(self) -> int:
        """The number of managers of the stack, which share GitHub's limits."""
        return 1 + len({each.manager for each in self.other_pools})

    @property
    def is_public(self) -> bool:
        """True if public repositories may use the runner group of a pool."""
        return any(pool.public for pool in self.pools)

    def pools_by_supplier(self) -> dict[str, list[Pool]]:
        """Return the pools of each supplier."""
        names = dict.fromkeys(pool.supplier for pool in self.pools)
        return {name: [pool for pool in self.pools if pool.supplier == name] for name in names}

    def is_of_another(self) -> Callable[[Job], bool]:
        """Return a function that is True for a job for which another manager of the stack starts the machine."""
        return lambda job: is_of_another(job, self.name, self.pools, self.other_pools)


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
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: is not valid JSON\n  got: {error}\n  hint: {_HINT}") from None
    model = _model(value, file)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ConfigError(_report(error, file, model)) from None


def _model(value: Any, file: str) -> type[Config]:
    """Return the model of a configuration with these suppliers. Raises ConfigError if one is unknown."""
    given = value.get("pools") if isinstance(value, dict) else None
    chosen = [_supplier_of(pool) for pool in given] if isinstance(given, list) else []
    known = suppliers.names()
    unknown = [(at, name) for at, name in enumerate(chosen) if name not in known]
    if unknown:
        places = [
            f"{file}: pools[{at}].supplier: unknown supplier\n  got: {redact(repr(name))[:100]}\n"
            f"  expected: one of {', '.join(known)}"
            for at, name in unknown
        ]
        raise ConfigError("\n".join(places))
    return _of_suppliers(tuple(dict.fromkeys(chosen)))


@cache
def _of_suppliers(names: tuple[str, ...]) -> type[Config]:
    """Return the model in which each pool has the form of its supplier."""
    models = [Annotated[_of_supplier(name), Tag(name)] for name in names or (DEFAULT_SUPPLIER,)]
    pool = Annotated[Union[tuple(models)], Discriminator(_supplier_of)] if len(models) > 1 else models[0]  # noqa: UP007
    about = Config.model_fields["pools"].description
    field = (list[pool], Field(min_length=1, description=about))  # type: ignore[valid-type]
    return create_model("Config", __base__=Config, pools=field)


def _of_supplier(name: str) -> Any:
    """Return the type of a supplier's pools. Its field `supplier` has one value, by which a message finds the type."""
    given = suppliers.supplier(name).POOL
    fields = {"__annotations__": {"supplier": Literal[name]}, "supplier": name}
    return dataclass(type(given.__name__, (given,), fields), frozen=True, config=CONFIGURED)


def _supplier_of(pool: Any) -> str:
    return str(pool.get("supplier", DEFAULT_SUPPLIER)) if isinstance(pool, dict) else DEFAULT_SUPPLIER


_HINT = "pulumi stack output manager --json > manager.json"


def _report(error: ValidationError, file: str, model: type[Config]) -> str:
    """Return each mistake in the format of stack file errors, with the command that writes the file again."""
    # Imported here because it loads Pulumi's SDK, which a valid configuration does not need.
    from gpu_ci.errors import report
    from gpu_ci.validation_errors import explain

    problems = [replace(each, expected=each.expected.rstrip(".")) for each in explain(error, model)]
    problems[-1] = replace(problems[-1], hint=problems[-1].hint or _HINT)
    return report(file, problems)
