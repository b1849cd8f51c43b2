"""Schedules of Cloud Scheduler: their validation, and the job that starts builds by a message."""

from __future__ import annotations

import base64
import re
from typing import Annotated, NamedTuple

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator

from ..args import Input
from ..errors import invalid

_HINT = "such as 0 4 * * 1, which is Monday at 04:00 UTC"


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    """The names of the values from `least` on."""


# Cloud Scheduler's format of five fields (cloud.google.com/scheduler/docs/configuring/cron-job-schedules).
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    _Field("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
_VALUE = r"(?:\d{1,2}|[A-Za-z]{3})"
_PART = rf"(?:\*|{_VALUE}(?:-{_VALUE})?)(?:/[1-9]\d?)?"
_SCHEDULE = re.compile(rf"{_PART}(?:,{_PART})*(?: {_PART}(?:,{_PART})*){{4}}")


def check(value: str | None) -> str | None:
    """Return the schedule, or None."""
    if value is None:
        return None
    if not _SCHEDULE.fullmatch(value):
        raise invalid(
            "is not a schedule of Cloud Scheduler",
            "not-a-schedule",
            expected="minute, hour, day of month, month and day of week, with single spaces",
            hint=_HINT,
        )
    for field, text in zip(_FIELDS, value.split(" "), strict=True):
        for each in re.findall(_VALUE, re.sub(r"/\d+", "", text)):
            if each.upper() not in field.names and not (each.isdigit() and field.least <= int(each) <= field.most):
                names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
                raise invalid(
                    f"has {each} as the {field.name}",
                    "not-a-schedule",
                    expected=f"{field.least} to {field.most}{names}",
                    hint=_HINT,
                )
    return value


Schedule = Annotated[str | None, AfterValidator(check)]
"""A schedule of Cloud Scheduler in UTC, or None."""


def job(
    logical_name: str,
    name: str,
    description: str,
    schedule: str,
    topic: gcp.pubsub.Topic,
    message: str,
    project: Input[str],
    region: str,
    opts: pulumi.ResourceOptions,
) -> gcp.cloudscheduler.Job:
    """Create a job that publishes a message to the topic of a trigger. Cloud Build ignores the text of the message."""
    return gcp.cloudscheduler.Job(
        logical_name,
        project=project,
        region=region,
        name=name,
        description=description,
        schedule=schedule,
        time_zone="Etc/UTC",
        pubsub_target={"topic_name": topic.id, "data": base64.b64encode(message.encode()).decode()},
        opts=opts,
    )
