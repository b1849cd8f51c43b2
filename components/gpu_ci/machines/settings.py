"""The nested arguments of pools of machines: the labels of runners, the smoke check, and stopped machines."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, StringConstraints

from ..args import Args, Integer
from ..errors import invalid
from .rules import job_classes

# GitHub does not publish its rule for labels. This pattern has no comma, because labels are passed as a list with
# commas.
TimeOfDay = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
DAY_MIN = 24 * 60


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise invalid(
            "is not a time zone",
            "no-time-zone",
            expected="a name of the IANA database, such as Europe/Berlin",
            hint="UTC has no summer time",
        ) from None
    return name


RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


# An event, and maybe a branch. Git has stricter rules for the names of branches.
JobClass = Annotated[str, StringConstraints(pattern=r"^[a-z_]+(:\S{1,200})?$")]


class SmokeSettings(Args):
    """Settings of the smoke check of a template."""

    deadline_sec: Integer = Field(
        default=1200,
        ge=120,
        le=3600,
        description="seconds from the start of the check machine to its verdict, 120 to 3600",
    )
    on_no_capacity: Literal["fail", "unproven"] = Field(
        default="fail",
        description="what to do if no zone has a machine for the check: fail, or use the template unproven",
    )


class Schedule(Args):
    """The times of a week, in hours of a time zone."""

    days: Annotated[list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]], Field(min_length=1)] = Field(
        default=["mon", "tue", "wed", "thu", "fri"], description="the days on which the times begin"
    )
    start: TimeOfDay = Field(default="08:00", description="when the times of a day begin, such as 08:00")
    end: TimeOfDay = Field(
        default="18:00",
        description="when they end; on the next day if it is not after start, so 00:00 to 00:00 is 24 h",
    )
    time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        default="UTC", description="a time zone of the IANA database, such as Europe/Berlin"
    )

    @property
    def fraction(self) -> float:
        """The part of a week that the times cover, 0 to 1."""
        first, last = (int(each[:2]) * 60 + int(each[3:]) for each in (self.start, self.end))
        return ((last - first) % DAY_MIN or DAY_MIN) * len(set(self.days)) / (7 * DAY_MIN)


class Warm(Args):
    """Machines that are on, have passed their check, and wait for a job, at the times of a schedule.

    Each one costs as a machine with a job. The GPU is checked again before a job.
    """

    size: Integer = Field(ge=1, le=1000, description="the number of waiting machines, 1 to 1000 and at most max")
    schedule: Schedule = Field(default=Schedule(), description="when they wait; by default Monday to Friday, UTC")
    most_wait_sec: Integer = Field(
        default=14400,
        ge=600,
        le=43200,
        description="seconds after which a waiting machine is replaced, 600 to 43200; the time limit of the pool's "
        "machines is that much longer",
    )


class StandbySize(Args):
    """Machines that are stopped until a job needs them, and keep their disk, which costs.

    A stopped machine reserves no GPU, so its start can fail for lack of capacity.
    """

    stopped_size: Integer = Field(
        ge=1, le=1000, description="the number of stopped machines, 1 to 1000 and at most max; their disks cost"
    )


class Standby(StandbySize):
    """Machines that are stopped until a job needs them, and keep their disk.

    In pools with runners, the runner manager creates, stops and starts these machines. In pools without runners, they
    are the standby pool of the managed instance group.
    """

    mode: Literal["manual", "scale-out-pool"] = Field(
        default="manual",
        description="how the machines are started in pools without runners: manual (by a resize of the group), or "
        "scale-out-pool (by the group, before it creates new machines)",
    )
    initial_delay_sec: Integer = Field(
        default=0,
        ge=0,
        le=3600,
        description="seconds that a new machine runs before it is stopped, in pools without runners, 0 to 3600",
    )


class Priorities(Args):
    """The order in which waiting jobs get the machines of a pool.

    It holds for jobs that also have the label run-${{ github.run_id }} in runs-on.
    """

    order: Annotated[list[JobClass], AfterValidator(job_classes)] = Field(
        min_length=1,
        max_length=20,
        examples=[["merge_group", "push:main", "pull_request", "schedule"]],
        description="events of GitHub Actions, such as merge_group, or of one branch, such as push:main, the most "
        "important one first; all other jobs come last",
    )
    aging_sec: Integer = Field(
        default=1800,
        ge=60,
        le=86400,
        description="seconds of waiting that raise a job by one class, 60 to 86400",
    )
    repository_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        examples=[0.5],
        description="the part of max, up to 1, after which a repository comes after all others; by default none",
    )
