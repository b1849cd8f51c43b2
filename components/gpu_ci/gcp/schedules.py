"""Validates schedules of Cloud Scheduler."""

from __future__ import annotations

import re

from ..errors import invalid

_FIELD = r"[0-9A-Za-z*,/-]+"
# Cloud Scheduler's format of five fields (cloud.google.com/scheduler/docs/configuring/cron-job-schedules).
_SCHEDULE = re.compile(rf"{_FIELD}( {_FIELD}){{4}}")


def check(value: str | None) -> str | None:
    """Return the schedule, or None."""
    if value is not None and not _SCHEDULE.fullmatch(value):
        raise invalid(
            "is not a schedule of Cloud Scheduler",
            expected="minute, hour, day of month, month and day of week, with single spaces",
            hint="such as 0 4 * * 1, which is Monday at 04:00 UTC",
        )
    return value
