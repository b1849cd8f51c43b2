"""Settings of a runner pool: the labels of its runners, its check, and machines that wait stopped."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ...args import Args, Integer

# Narrower than GitHub's own rule, which is not published: runner labels are handed over as a comma-separated list.
RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class SmokeSettings(Args):
    """How the pool proves its GPU before it takes a template."""

    deadline_sec: Integer = Field(
        default=1200,
        ge=120,
        le=3600,
        description="seconds from the start of the check machine to its verdict, 120 to 3600",
    )
    on_no_capacity: Literal["fail", "unproven"] = Field(
        default="fail",
        description="what to do when no zone has a machine for the check: fail, or take the template unproven",
    )


class Standby(Args):
    """Machines that wait stopped, with what is on their disk. They hold no GPU: starting one may find none left.

    Of pools whose runners the runner manager registers, the manager makes, stops and starts them. Of pools without
    runners they are the standby pool of the managed instance group.
    """

    stopped_size: Integer = Field(
        ge=1, le=1000, description="how many machines wait stopped, 1 to 1000 and at most max; their disks cost"
    )
    mode: Literal["manual", "scale-out-pool"] = Field(
        default="manual",
        description="who starts them, of pools without runners: manual (whoever resizes the group), or scale-out-pool "
        "(the group, before it makes new ones)",
    )
    initial_delay_sec: Integer = Field(
        default=0,
        ge=0,
        le=3600,
        description="seconds a new machine runs before it is stopped, of pools without runners, 0 to 3600",
    )
