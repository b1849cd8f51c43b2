"""The nested arguments of pools of machines: the labels of runners, the smoke check, and stopped machines."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ..args import Args, Integer

# GitHub does not publish its rule for labels. This pattern has no comma, because labels are passed as a list with
# commas.
RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


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
