"""Deletes machines that a killed step left: the last guard, after the step itself and the machine's own time limit.

Two triggers of the component BuildGpuBridge, for a schedule and for the end of a build, run
`python -m gpu_ci.gcp.gpu_bridge reap`, which calls `reap`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..gate.compute_api import OFF, ApiError
from ..gate.google_service import PLATFORM, GoogleService
from .follow import BridgeApi
from .protocol import BRIDGE_LABEL, BUILD_LABEL, REGION_LABEL, TTL_LABEL

ENDPOINT = "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"
# The states of a build that has ended (discovery document cloudbuild v1, Build.status). A build that is QUEUED, PENDING
# or WORKING has not.
_ENDED = ("SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED")
_FIELDS = ("name", "zone", "status", "labels")


class GoogleBuilds(GoogleService):
    """Cloud Build through Google's Python client."""

    def __init__(self) -> None:
        # The variable contains v1/, as in Terraform's Google provider. So do the paths of this API's methods.
        endpoint = os.environ.get(ENDPOINT, "").rstrip("/").removesuffix("/v1")
        super().__init__("cloudbuild", "v1", endpoint, PLATFORM)

    def status(self, project: str, region: str, build: str) -> str:
        """Return the status of a build. Raise ApiError with `missing` if it does not exist."""
        name = f"projects/{project}/locations/{region}/builds/{build}"
        return str(self._run(self._service.projects().locations().builds().get(name=name))["status"])


def reap(
    api: BridgeApi, builds: GoogleBuilds, project: str, unix_sec: float, log: Callable[[str], None], bridge: str
) -> list[str]:
    """Delete the machines of a bridge that no step needs, and return their names.

    A machine stays if its build runs, or if Cloud Build does not answer, until the time in its label is over. An error
    about one machine is logged, and does not stop the others.

    Raises:
        ApiError: Google does not list the machines.
    """
    reaped: list[str] = []
    for row in api.instances_of_all_zones(project, f"labels.{BRIDGE_LABEL}={bridge}", _FIELDS):
        zone, name = str(row["zone"]).rpartition("/")[2], str(row["name"])
        try:
            if not (why := _why(row, builds, project, unix_sec, log)):
                continue
            api.delete(project, zone, name)
        except ApiError as error:
            if not error.missing:
                log(f"could not delete {name} in {zone}: {error}")
            continue
        log(f"deleting {name} in {zone}: {why}")
        reaped.append(name)
    return reaped


def _why(row: dict[str, Any], builds: GoogleBuilds, project: str, unix_sec: float, log: Callable[[str], None]) -> str:
    """Return why the machine is not needed, or ""."""
    labels = row["labels"]
    ttl = labels.get(TTL_LABEL, "")
    if not ttl.isdecimal():
        return f"it has no valid label {TTL_LABEL}"
    if unix_sec >= int(ttl):
        return "its time is over"
    if row["status"] in OFF:
        return "it is off"
    build, region = labels.get(BUILD_LABEL, ""), labels.get(REGION_LABEL, "global")
    try:
        status = builds.status(project, region, build)
    except ApiError as error:
        # Also for a build that does not exist: a step outside Cloud Build has none. The time limit holds.
        log(f"{row['name']} stays until its time is over: the state of build {build} in {region} is unknown: {error}")
        return ""
    return f"its build has ended ({status})" if status in _ENDED else ""
