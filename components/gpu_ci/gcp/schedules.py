"""Schedules of Cloud Scheduler: their validation, and the job that starts builds by a message."""

from __future__ import annotations

import base64
import re
from typing import Annotated

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator

from ..args import Input
from ..errors import invalid

_HINT = "such as 0 4 * * 1, which is Monday at 04:00 UTC"


# Cloud Scheduler's format of five fields (cloud.google.com/scheduler/docs/configuring/cron-job-schedules).
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
