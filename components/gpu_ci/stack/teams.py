"""The model of gpu-ci:teams: the repositories of each team, and what the team may spend in a month."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ..args import Args
from ..errors import Problem, at_path, invalid, raise_problems, shape
from ..validation_errors import join

TEAMS = "gpu-ci:teams"
"""The key of a stack file for the teams."""

_HINT = "such as vision: {repositories: [kernels], usdPerMonth: 300, onBudget: stop}"

Repository = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
"""The name of a repository on GitHub, without its owner."""


class Team(Args):
    """A team, with its repositories and its budget."""

    repositories: list[Repository] = Field(
        min_length=1,
        description="the names of the team's repositories, without the owner; a repository has one team",
        examples=[["kernels", "detector"]],
    )
    usd_per_month: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = Field(
        default=None,
        description="the budget of a calendar month in UTC, in USD; by default the team has none",
        examples=[300],
    )
    on_budget: Literal["warn", "stop"] = Field(
        default="warn",
        description="what follows when the budget is spent: `warn`, or `stop`, and no machine is started for a job of "
        "the team until the next month. Running jobs continue",
    )

    @model_validator(mode="after")
    def _a_budget_to_stop_at(self) -> Team:
        if self.on_budget == "stop" and self.usd_per_month is None:
            problem = invalid("has no effect without usdPerMonth", "no-budget", safe_hint="such as usdPerMonth: 300")
            raise_problems([at_path(problem, "stop", "onBudget")])
        return self


TeamName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$")]
Teams = dict[TeamName, Team]
"""The teams by name."""


class _Key(Args):
    teams: Teams = Field(description="teams by name")


def check(values: Any) -> tuple[dict[str, Team], list[Problem]]:
    """Return the teams by name, and every problem of the key. There are no teams if the key has a problem."""
    if values is None:
        return {}, []
    if not isinstance(values, Mapping):
        return {}, [Problem(TEAMS, "must be a map", shape(values), "teams by name", _HINT, "wrong-type")]
    found, problems = _Key.parse({"teams": values})
    problems = [replace(each, path=TEAMS + each.path.removeprefix("teams")) for each in problems]
    problems = [replace(each, hint=each.hint or _HINT) for each in problems + list(_in_two_teams(values))]
    return found.teams if found and not problems else {}, problems


def _in_two_teams(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each repository of a second team. GitHub ignores upper and lower case."""
    owners = dict[str, str]()
    for name, team in values.items():
        repositories = team.get("repositories") if isinstance(team, Mapping) else None
        for at, each in enumerate(repositories if isinstance(repositories, list) else ()):
            if isinstance(each, str) and (owner := owners.setdefault(each.lower(), name)) != name:
                path = join(join(join(TEAMS, name), "repositories"), at)
                hint = "remove it from one of the two"
                yield Problem(path, f"is also a repository of {owner}", repr(each), "one team", hint, "two-teams")
