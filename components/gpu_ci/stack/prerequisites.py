"""Returns warnings about prerequisites in Google Cloud that the pools of a stack file need before `pulumi up`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..args import Args
from ..validation_errors import join
from .images import IMAGES
from .pools import POOLS

# The regions of Cloud Build for projects that Google restricts to some regions (cloud.google.com/build/docs/locations).
_UNRESTRICTED = (
    "us-central1", "us-west2", "europe-west1", "asia-east1", "australia-southeast1", "southamerica-east1",
)  # fmt: skip
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
    pools: Iterable[tuple[str, Any]], project: str, fields: Collection[str] = tuple(_GRANTS)
) -> list[str]:
    """Return a warning for each field of a pool that names a resource of another project.

    The check machine is created with the permissions of the deployer. The machines of a managed instance group are
    created with the permissions of the Google APIs service agent. So a group may fail to start a machine although the
    check has passed (cloud.google.com/compute/docs/access/service-accounts#google_apis_service_agent). The machines of
    a build step are created with the permissions of the build's service account.
    """
    return [
        f"{join(POOLS, name)}.{field}: is of another project, {other}: the check of a template uses the deployer's "
        f"rights there, and {_later(args)}; hint: "
        f"{_GRANTS[field]} (docs/start/bootstrap.md)"
        for name, args in pools
        for field in fields
        if (other := _project_of(getattr(args, field, None))) and other not in (project, *_PUBLIC_IMAGES)
    ]


def _later(args: Any) -> str:
    """Return who creates the machines after the check."""
    if hasattr(args, "reap_schedule"):  # a pool of kind cloud-build-gpu
        return "a build the rights of the pool's output serviceAccountEmail"
    return "the group the rights of <project number>@cloudservices.gserviceaccount.com"


def _project_of(link: Any) -> str:
    """Return the project in the path of a resource; empty for a name without a path and for an unknown value."""
    steps = link.split("/") if isinstance(link, str) else []
    return steps[steps.index("projects") + 1] if "projects" in steps else ""


def build_pools(pools: Iterable[tuple[str, Args]]) -> list[str]:
    """Return the prerequisites of build pools that are not checked here: quota, regions and connected repositories."""
    return [
        text
        for name, args in pools
        for text in (
            *(_build_pool(name, args) if hasattr(args, "triggers") else ()),
            *(_reaper(name, args) if hasattr(args, "build_region") else ()),
        )
    ]


def image_pipelines(sources: Iterable[tuple[str, str, Any]]) -> list[str]:
    """Return the prerequisite of pipelines that is not checked here: the connected repository.

    Args:
        sources: Name, region and source of each pipeline that Cloud Build triggers.
    """
    return [
        f"{join(IMAGES, name)}.source: {_connect(source.repository, region)}"
        for name, region, source in sources
        if not source.repository_resource
    ]


def _connect(repositories: str, region: str) -> str:
    return (
        f"{repositories} must be connected to Cloud Build as 1st gen in {region}; hint: Cloud Build, Repositories, 1st "
        "gen, Connect repository, as an owner of the organization on GitHub; or name a 2nd-gen repository in "
        "repositoryResource"
    )


_RESTRICTED = f"a project that is restricted to some regions builds in {', '.join(_UNRESTRICTED)} only"


def _reaper(name: str, args: Any) -> Iterable[str]:
    """Yield the prerequisite of the builds that delete machines. Google reports a refused one to nobody."""
    if (region := args.build_region or args.region) not in _UNRESTRICTED:
        yield f"{join(POOLS, name)}: builds in {region}, and {_RESTRICTED}; hint: set buildRegion"


def _build_pool(name: str, args: Any) -> Iterable[str]:
    path = join(POOLS, name)
    elsewhere = f", and {_RESTRICTED}" if args.region not in _UNRESTRICTED else ""
    yield (
        f"{path}: a new project may have no quota for private pools or their CPUs in {args.region}{elsewhere}; hint: "
        "see cloud.google.com/build/quotas before the first up"
    )
    triggers = args.triggers.values()
    if repositories := sorted({trigger.repository for trigger in triggers if not trigger.repository_resource}):
        yield f"{path}.triggers: {_connect(', '.join(repositories), args.region)}"
