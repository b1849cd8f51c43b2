"""Deletes the stopped machines of a template that the runner manager will not start again.

A pool with `standby` has machines (Compute Engine VMs) that the manager stops, and starts again for a job. Google
deletes a running machine after its maximum run duration. This time does not count while a machine is stopped, so Google
never deletes a stopped machine.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

from ..template_links import region_and_name_of_template
from .compute_api import OFF, ApiError, ComputeApi
from .waiting import Clock, RealClock

MANAGER_LABEL, TEMPLATE_LABEL = "gpu-ci-manager", "gpu-ci-template"
"""Labels that the runner manager sets on its machines."""

_STOPPING = ("PENDING_STOP", "STOPPING", "SUSPENDING")
_FIELDS = ("name", "zone", "status", "labels")
_POLL_EVERY_SEC = 2.0
# Compute Engine gives a machine 90 seconds to shut down (cloud.google.com/compute/docs/shutdownscript).
_STOP_WITHIN_SEC = 120.0
_DELETE_WITHIN_SEC = 180.0


def delete_stopped(
    api: ComputeApi, project: str, template: str, log: Callable[[str], None], clock: Clock | None = None
) -> None:
    """Delete the stopped machines that a manager created from this template.

    The function waits for machines that are stopping. A running machine stays, because it may have a job. The name of a
    template is unique in its project, so stacks that share a project never delete each other's machines.

    Raises:
        ApiError: Google does not list the machines, or does not delete one.
    """
    clock = clock or RealClock()
    until = clock.now() + _STOP_WITHIN_SEC
    deletions: dict[tuple[str, str], str] = {}
    while True:
        rows = _managed_machines(api, project, template)
        for zone, name in (_zone_and_name(row) for row in rows if row["status"] in OFF):
            if (zone, name) not in deletions and (operation := _delete_if_off(api, project, zone, name)):
                log(f"deleting {name}, which is stopped in {zone}")
                deletions[zone, name] = operation
        stopping = [_zone_and_name(row) for row in rows if row["status"] in _STOPPING]
        if not stopping:
            break
        if clock.now() >= until:
            log(
                f"{', '.join(name for _, name in stopping)} did not stop in {_STOP_WITHIN_SEC:.0f} s and will not be "
                "deleted"
            )
            break
        clock.wait(Event(), _POLL_EVERY_SEC)
    until = clock.now() + _DELETE_WITHIN_SEC
    for (zone, name), operation in deletions.items():
        while not api.done(project, zone, operation):
            if clock.now() >= until:
                log(f"{name} in {zone} is still being deleted")
                break
            clock.wait(Event(), _POLL_EVERY_SEC)


def _managed_machines(api: ComputeApi, project: str, template: str) -> list[dict[str, Any]]:
    _, name = region_and_name_of_template(template)
    rows = api.instances_of_all_zones(project, f"labels.{TEMPLATE_LABEL}={name}", _FIELDS)
    return [row for row in rows if row["labels"].get(MANAGER_LABEL)]


def _zone_and_name(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["zone"]).rpartition("/")[2], str(row["name"])


def _delete_if_off(api: ComputeApi, project: str, zone: str, name: str) -> str:
    """Request the deletion, and return the operation. Return "" if the machine no longer exists or has started."""
    try:
        return api.delete(project, zone, name) if api.status(project, zone, name)[0] in OFF else ""
    except ApiError as error:
        if error.missing:
            return ""
        raise
