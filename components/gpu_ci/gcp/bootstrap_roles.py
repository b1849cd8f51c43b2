"""The custom roles of the components that bootstrap/ makes, and the roles that a deployer may grant in the project.

A deployer that can change a role can put any permission in it. So with the argument bootstrapRoles, the components
create no roles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpu_common import google_permissions

from . import host_image_pipeline, identities, manager_permissions
from .gpu_bridge import steps


def _on_machines(name: str, calls: Mapping[str, tuple[str, ...]], on_all: Collection[str] = ()) -> dict[str, list[str]]:
    own, others = identities.split(calls, on_all)
    return {f"{name}_machines": own, f"{name}_project": others}


_IN_PROJECT = {
    **_on_machines("bridge", steps.CALLS),
    **_on_machines("image", host_image_pipeline.CALLS),
    **_on_machines("manager", manager_permissions.MACHINES, manager_permissions.ON_ALL),
}
ROLES: Mapping[str, list[str]] = {
    **_IN_PROJECT,
    "bridge_reader": google_permissions.of_calls(steps.READ),
    "bridge_writer": google_permissions.of_calls(steps.CHANGE),
    "manager_state": google_permissions.of_calls(manager_permissions.STATE),
}
"""The permissions of each role, by its id without gpu_ci_. Those of objects are granted on buckets only."""


def granted(project: str) -> list[str]:
    """Return the roles that the components grant in the project, which are as many as one condition can name."""
    return [
        "roles/cloudbuild.workerPoolUser",
        "roles/container.defaultNodeServiceAccount",
        "roles/logging.logWriter",
        "roles/serviceusage.serviceUsageConsumer",
        *(f"projects/{project}/roles/gpu_ci_{name}" for name in _IN_PROJECT),
    ]
