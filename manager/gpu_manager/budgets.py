"""What each team has spent in the calendar month, and each pool today, and who gets no machine because of it.

A machine counts for the team of the repository whose job it ran, with its whole time, at the catalog price. Until
GitHub has named the job, it counts for the repository of the job for which it was started. Machines without a job, as
on standby, count for no team. The month is that in which the machine was gone, in UTC. A pool has spent the time of
all its machines since midnight in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from gpu_ci.machine_records import MachineRecord
from pydantic import Field
from pydantic.dataclasses import dataclass

from .memory import MachineHistory, Memory
from .model import CONFIGURED, Pool, Reason
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

    def __init__(
        self, teams: Sequence[Team], stored: Callable[[datetime], Iterable[str]], pools: Sequence[Pool] = ()
    ) -> None:
        """Create the budgets. `stored` returns the stored records of machines that are gone since a time."""
        self.teams = teams
        self._caps = {pool.name: pool.max_usd_per_day for pool in pools if pool.max_usd_per_day is not None}
        self._stored = stored
        self._team_of = {name: team for team in teams for name in team.repositories}
        self._begin: datetime | None = None
        self._month = ""
        self._is_read = False
        """True if `_gone` has the stored records of the month, and `_gone_today` those of the day."""
        self._gone: dict[str, tuple[str, float]] = {}
        """The team and the price of each machine that is gone, by the key of its record."""
        self._there: dict[int, dict[str, float]] = {}
        """The price of the other machines by team, for each loop."""
        self._midnight = 0.0
        self._gone_today: dict[str, tuple[str, float]] = {}
        """The pool and the price of this day of each machine that is gone, by the key of its record."""
        self._there_today: dict[int, dict[str, float]] = {}
        """The price of this day of the other machines by pool, for each loop."""

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Count machines that are gone, each once."""
        for each in records:
            team = self._team_of.get(each.job.repository.lower()) if each.job else None
            if team and each.usd is not None and f"{each.gone:%Y-%m}" == self._month:
                self._gone[each.key] = (team.name, each.usd)
            if each.pool in self._caps:
                on = [(begin.timestamp(), end.timestamp()) for begin, end in each.on]
                self._gone_today[each.key] = (each.pool, _usd(on, each.usd_per_hour, 0.0, self._midnight))

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
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        if self._caps and not 0 <= self._midnight - day.timestamp() <= _MOST_BEHIND.total_seconds():
            self._midnight, self._gone_today, self._is_read = day.timestamp(), {}, False
        if (self.teams or self._caps) and not self._is_read:
            try:
                since = begin if self.teams else day
                lines = [MachineRecord.model_validate_json(line) for line in self._stored(since)]
            except (Unavailable, Refused, ValueError) as error:
                problems.append(f"the budgets count no earlier machine: {error}")
            else:
                self.add(lines)
                self._is_read = True
        self.count(loop, memory, now)
        return problems

    def count(self, loop: int, memory: Memory, now: float) -> None:
        """Count the machines of a loop that are there now."""
        there = self._there[loop] = {team.name: 0.0 for team in self.teams}
        today = self._there_today[loop] = dict.fromkeys(self._caps, 0.0)
        for history in (*memory.histories.values(), *memory.ended.values()):
            if team := self._team_of.get(_repository(history)):
                there[team.name] += _usd(history.on, history.usd_per_hour, now)
            if history.pool in today:
                today[history.pool] += _usd(history.on, history.usd_per_hour, now, self._midnight)

    @property
    def spent(self) -> dict[str, float]:
        """The USD that each team has spent in this month."""
        total = {team.name: sum(there[team.name] for there in self._there.values()) for team in self.teams}
        for team, usd in self._gone.values():
            total[team] += usd
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

    def cost_caps(self) -> Mapping[str, Reason]:
        """Return the pools that start no machine until midnight, each with the reason."""
        spent = {name: sum(there[name] for there in self._there_today.values()) for name in self._caps}
        for pool, usd in self._gone_today.values():
            spent[pool] += usd
        next_day = self._midnight + timedelta(days=1).total_seconds()
        return {
            name: Reason("cost-cap", f"its machines have cost {cap:g} USD today, which is maxUsdPerDay", next_day)
            for name, cap in self._caps.items()
            if spent[name] >= cap
        }


def _repository(history: MachineHistory) -> str:
    """Return the repository of the machine's job, or of the job for which it was last started, in lower case."""
    if history.job:
        return history.job.key.repository.lower()
    return history.runs[0].repository.lower() if history.runs else ""


def _usd(on: Iterable[tuple[float, float | None]], usd_per_hour: float | None, now: float, since: float = 0.0) -> float:
    """Return the catalog price of the time between `since` and `now` in which a machine was on."""
    seconds = sum(max((now if end is None else end) - max(begin, since), 0.0) for begin, end in on)
    return seconds * (usd_per_hour or 0.0) / 3600
