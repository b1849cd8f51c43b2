"""What each team has spent in the calendar month, and the teams that get no machine because they spent their budget.

A machine counts for the team of the repository whose job it ran, with its whole time, at the catalog price. Until
GitHub has named the job, it counts for the repository of the job for which it was started. Machines without a job, as
on standby, count for no team. The month is that in which the machine was gone, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from gpu_ci.machine_records import MachineRecord
from pydantic import Field
from pydantic.dataclasses import dataclass

from .memory import MachineHistory, Memory
from .model import CONFIGURED
from .ports import Refused, Unavailable

WARNING_RATIO = 0.8
"""The part of a budget whose use is reported before the budget is spent."""
_MOST_BEHIND = timedelta(days=2)


@dataclass(frozen=True, config=CONFIGURED)
class Team:
    """A team with a budget, as the stack's output `manager` has it."""

    name: str
    """The name of the team."""
    repositories: frozenset[str]
    """Its repositories, as owner/name in lower case."""
    usd_per_month: float = Field(gt=0, allow_inf_nan=False)
    """The budget of a calendar month, in USD."""
    on_budget: Literal["warn", "stop"] = "warn"
    """What happens when the budget is spent: warn, or stop, and no machine is started for its jobs."""


class Budgets:
    """The budgets of a manager's teams. All loops of a process share one object."""

    def __init__(self, teams: Sequence[Team], stored: Callable[[datetime], Iterable[str]]) -> None:
        """Create the budgets. `stored` returns the stored records of machines that are gone since a time."""
        self.teams = teams
        self._stored = stored
        self._team_of = {name: team for team in teams for name in team.repositories}
        self._begin: datetime | None = None
        self._month = ""
        self._is_read = False
        """True if `_gone` has the stored records of the month."""
        self._gone: dict[str, tuple[str, float]] = {}
        """The repository and the price of each machine that is gone, by the key of its record."""
        self._there: dict[int, dict[str, float]] = {}
        """The price of the other machines by team, for each loop."""

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Count machines that are gone, each once."""
        for each in records:
            if each.job and each.usd is not None and f"{each.gone:%Y-%m}" == self._month:
                self._gone[each.key] = (each.job.repository.lower(), each.usd)

    def update(self, loop: int, memory: Memory, now: float) -> list[str]:
        """Count the machines of a loop that are there now. Return the reason why stored records could not be read.

        Args:
            loop: A number of the loop.
            memory: The memory of the loop.
            now: Seconds since 1970.
        """
        problems = []
        moment = datetime.fromtimestamp(now, UTC)
        begin = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        # A loop may be a little behind. A month that is far ahead was a step of the clock, which is over.
        if self._begin is None or begin > self._begin or self._begin - moment > _MOST_BEHIND:
            self._begin, self._month, self._gone, self._is_read = begin, f"{begin:%Y-%m}", {}, False
        if self.teams and not self._is_read:
            try:
                lines = [MachineRecord.model_validate_json(line) for line in self._stored(begin)]
            except (Unavailable, Refused, ValueError) as error:
                problems.append(f"the budgets of teams count no earlier machine: {error}")
            else:
                self.add(lines)
                self._is_read = True
        self.count(loop, memory, now)
        return problems

    def count(self, loop: int, memory: Memory, now: float) -> None:
        """Count the machines of a loop that are there now."""
        there = self._there[loop] = {team.name: 0.0 for team in self.teams}
        for history in (*memory.histories.values(), *memory.ended.values()):
            if team := self._team_of.get(_repository(history)):
                there[team.name] += _usd(history, now)

    @property
    def spent(self) -> dict[str, float]:
        """The USD that each team has spent in this month."""
        total = {team.name: sum(there[team.name] for there in self._there.values()) for team in self.teams}
        for repository, usd in self._gone.values():
            if team := self._team_of.get(repository):
                total[team.name] += usd
        return total

    def reports(self) -> list[tuple[str, str]]:
        """Return each team that has spent most of its budget or all of it, with a sentence."""
        spent = self.spent
        found = []
        for team in self.teams:
            ratio = spent[team.name] / team.usd_per_month
            if ratio >= WARNING_RATIO:
                part = "all" if ratio >= 1 else f"{WARNING_RATIO:.0%}"
                found.append((team.name, f"has spent {part} of {team.usd_per_month:g} USD in {self._month}"))
        return found

    def stopped(self) -> Mapping[str, str]:
        """Return the repositories that get no machine in this month, in lower case, each with the reason."""
        spent = self.spent
        return {
            name: f"the team {team.name} has spent its {team.usd_per_month:g} USD of {self._month}"
            for team in self.teams
            if team.on_budget == "stop" and spent[team.name] >= team.usd_per_month
            for name in team.repositories
        }


def _repository(history: MachineHistory) -> str:
    """Return the repository of the machine's job, or of the job for which it was last started, in lower case."""
    if history.job:
        return history.job.key.repository.lower()
    return history.runs[0].repository.lower() if history.runs else ""


def _usd(history: MachineHistory, now: float) -> float:
    """Return the catalog price of the machine's time until now."""
    seconds = sum((now if end is None else end) - begin for begin, end in history.on)
    return max(seconds, 0.0) * (history.usd_per_hour or 0.0) / 3600
