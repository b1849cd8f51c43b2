"""The times of a report: whole days in UTC, and the equally long time before them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, NamedTuple

from gpu_ci.cli import clock
from gpu_ci.cli.mistakes import Mistakes

Period = Literal["week", "month"]
_LONGEST_DAYS = 3660


class Window(NamedTuple):
    """Whole days in UTC."""

    first: date
    end: date
    """The day after the last one."""

    @property
    def days(self) -> int:
        return (self.end - self.first).days

    def has(self, day: date) -> bool:
        return self.first <= day < self.end

    def __str__(self) -> str:
        return f"{self.first} to {self.end - timedelta(days=1)}"


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def since(text: str, where: str, mistakes: Mistakes) -> date:
    """Return the day of a text such as 4w, 30d or 2026-10-05. A mistake gives yesterday."""
    today = clock.today()
    if match := re.fullmatch(r"([1-9]\d{0,3})([dw])", text):
        day = today - timedelta(days=min(int(match[1]) * (7 if match[2] == "w" else 1), _LONGEST_DAYS))
    else:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            day = today
    if day >= today or (today - day).days > _LONGEST_DAYS:
        expected = f"weeks, days or a date before {today}"
        mistakes.add(where, "--since", "is not a time in the past", repr(text), expected, "such as 4w or 30d")
        return today - timedelta(days=1)
    return day


def begin_of(period: Period, day: date) -> date:
    """Return the Monday of the week, or the first day of the month, in which a day is."""
    return day.replace(day=1) if period == "month" else day - timedelta(days=day.weekday())


def windows(period: Period, first: date | None) -> tuple[Window, Window]:
    """Return the days of a report and those before: from the first day until today, or the last whole period."""
    if first is not None:
        window = Window(first, clock.today())
        return window, Window(first - timedelta(days=window.days), first)
    end = begin_of(period, clock.today())
    begin = begin_of(period, end - timedelta(days=1))
    return Window(begin, end), Window(begin_of(period, begin - timedelta(days=1)), begin)
