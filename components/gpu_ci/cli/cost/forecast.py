"""The cost of a whole month from its first days."""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple

_ERRORS = ((21, 0.04), (14, 0.09), (7, 0.17))
"""The error of the forecast after a number of days, the largest of six simulated months."""
_WEEKDAY_WEEKS = 4


class Forecast(NamedTuple):
    """The cost of the current month."""

    month: str
    """The month, such as 2026-10."""
    spent_usd: float
    """The cost of the days before today."""
    usd: float
    """The cost of the whole month."""
    error: float | None
    """The part by which the cost may differ; None in the first week, when the forecast is uncertain."""


def forecast(usd_by_day: Mapping[date, float], today: date) -> Forecast | None:
    """Return the forecast for the month of a day; None without any cost to compute it from.

    After the first week, each further day costs the mean of the whole weeks of the month. In the first week, it costs
    the mean of its weekday in the four weeks before.
    """
    first = today.replace(day=1)
    elapsed = (today - first).days
    left = [first + timedelta(days=at) for at in range(elapsed, calendar.monthrange(today.year, today.month)[1])]
    spent = sum(usd_by_day.get(first + timedelta(days=at), 0.0) for at in range(elapsed))
    if elapsed >= 7:
        days = elapsed // 7 * 7
        rest = len(left) * sum(usd_by_day.get(today - timedelta(days=at), 0.0) for at in range(1, days + 1)) / days
    else:
        rest = sum(_of_weekday(usd_by_day, day, today) for day in left)
    if not spent and not rest:
        return None
    error = next((error for least, error in _ERRORS if elapsed >= least), None)
    return Forecast(f"{first:%Y-%m}", spent, spent + rest, error)


def _of_weekday(usd_by_day: Mapping[date, float], day: date, today: date) -> float:
    """Return the mean cost of a weekday in the weeks before today, not before the first day with a cost."""
    last = today - timedelta(days=(today.weekday() - day.weekday()) % 7 or 7)
    days = [last - timedelta(weeks=at) for at in range(_WEEKDAY_WEEKS)]
    known = [each for each in days if each >= min(usd_by_day, default=today)]
    return sum(usd_by_day.get(each, 0.0) for each in known) / len(known) if known else 0.0
