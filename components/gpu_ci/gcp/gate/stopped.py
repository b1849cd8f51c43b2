"""Deletes the runner manager's stopped machines, once no manager would start them again.

The time limit of a machine does not count while it is stopped, so Google never deletes such a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

from ..resource_names import region_and_name_of_template
from .clock import Clock, RealClock
from .compute_api import ApiError, ComputeApi

MANAGER_LABEL, TEMPLATE_LABEL = "gpu-ci-manager", "gpu-ci-template"
"""Labels that the runner manager sets on its machines."""

_OFF = ("STOPPED", "SUSPENDED", "TERMINATED")
_STOPPING = ("PENDING_STOP", "STOPPING", "SUSPENDING")
_FIELDS = ("name", "zone", "status", "labels")
_ASK_EVERY_SEC = 2.0
# Compute Engine gives a machine 90 seconds to shut down (cloud.google.com/compute/docs/shutdownscript).
_STOP_WITHIN_SEC = 120.0
_DELETE_WITHIN_SEC = 180.0


def delete_stopped(
    api: ComputeApi, project: str, template: str, say: Callable[[str], None], clock: Clock | None = None
) -> None:
    """Delete a manager's stopped machines that were created from this template, and no others.

    The function waits for machines that are stopping. A running machine stays, because it may have a job. Google gives
    each template a unique name, so stacks that share a project never delete each other's machines.

    Raises:
        ApiError: Google does not list the machines, or does not delete one.
    """
    clock = clock or RealClock()
    until = clock.now() + _STOP_WITHIN_SEC
    deleting: dict[tuple[str, str], str] = {}
    while True:
        rows = _machines(api, project, template)
        for zone, name in (_place(row) for row in rows if row["status"] in _OFF):
            if (zone, name) not in deleting and (operation := _delete(api, project, zone, name)):
                say(f"deleting {name}, which is stopped in {zone}")
                deleting[zone, name] = operation
        stopping = [_place(row) for row in rows if row["status"] in _STOPPING]
        if not stopping:
            break
        if clock.now() >= until:
            say(
                f"{', '.join(name for _, name in stopping)} did not stop in {_STOP_WITHIN_SEC:.0f} s and will not be "
                "deleted"
            )
            break
        clock.wait(Event(), _ASK_EVERY_SEC)
    until = clock.now() + _DELETE_WITHIN_SEC
    for (zone, name), operation in deleting.items():
        while not api.done(project, zone, operation):
            if clock.now() >= until:
                say(f"{name} in {zone} is still being deleted")
                break
            clock.wait(Event(), _ASK_EVERY_SEC)


def _machines(api: ComputeApi, project: str, template: str) -> list[dict[str, Any]]:
    _, name = region_and_name_of_template(template)
    rows = api.instances_of_all_zones(project, f"labels.{TEMPLATE_LABEL}={name}", _FIELDS)
    return [row for row in rows if row["labels"].get(MANAGER_LABEL)]


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["zone"]).rpartition("/")[2], str(row["name"])


def _delete(api: ComputeApi, project: str, zone: str, name: str) -> str:
    """Return the operation. Return "" if the machine no longer exists, or has started since it was listed."""
    try:
        return api.delete(project, zone, name) if api.status(project, zone, name) in _OFF else ""
    except ApiError as error:
        if error.missing:
            return ""
        raise
