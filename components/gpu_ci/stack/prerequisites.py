"""Returns warnings about resources of other projects that the pools of a stack file need before `pulumi up`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..pool_args import PoolArgs
from ..validation_errors import join
from .pools import POOLS

# Google's public image projects.
_PUBLIC_IMAGES = (
    "cos-cloud", "debian-cloud", "deeplearning-platform-release", "rhel-cloud", "rocky-linux-accelerator-cloud",
    "rocky-linux-cloud", "ubuntu-os-accelerator-images", "ubuntu-os-cloud", "ubuntu-os-pro-cloud",
)  # fmt: skip
_GRANTS = {
    "subnetwork": "grant both roles/compute.networkUser on the subnetwork",
    "image": "grant both roles/compute.imageUser in its project",
    "reservation": "share the reservation with this project",
}
"""The fields that can name a resource of another project, and the step that gives the pool access to it."""


def other_projects(
    pools: Iterable[tuple[str, PoolArgs]], project: str, fields: Collection[str] = tuple(_GRANTS)
) -> list[str]:
    """Return a warning for each field of a pool that names a resource of another project.

    The check machine is created with the permissions of the deployer. The machines of a managed instance group are
    created with the permissions of the Google APIs service agent. So a group may fail to start a machine although the
    check has passed (cloud.google.com/compute/docs/access/service-accounts#google_apis_service_agent). The machines of
    a build step are created with the permissions of the build's service account.
    """
    return [
        f"{join(POOLS, name)}.{field}: is of another project, {other}: the check of a template uses the deployer's "
        f"rights there, and {args.LATER_MACHINES}; hint: {_GRANTS[field]} (docs/start/bootstrap.md)"
        for name, args in pools
        for field, link in args.shared_resources().items()
        if field in fields and (other := _project_of(link)) and other not in (project, *_PUBLIC_IMAGES)
    ]


def _project_of(link: Any) -> str:
    """Return the project in the path of a resource; empty for a name without a path and for an unknown value."""
    steps = link.split("/") if isinstance(link, str) else []
    return steps[steps.index("projects") + 1] if "projects" in steps else ""
