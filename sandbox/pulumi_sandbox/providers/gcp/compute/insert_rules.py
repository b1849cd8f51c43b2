"""Check rules that Compute Engine applies to the insert of an instance, but not to a template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import errors
from pulumi_sandbox.providers.gcp.restrictions import Restrictions

Json = dict[str, Any]


def refusals(project: str, path: str, instance: Json, restrictions: Restrictions) -> Iterator[errors.GoogleError]:
    """Yield every reason to refuse the instance; the API returns the first one."""
    yield from scratch_labels(instance)
    yield from restrictions.instance(project, path, instance)


def scratch_labels(instance: Json) -> Iterator[errors.GoogleError]:
    # Discovery document compute v1, AttachedDiskInitializeParams.labels: "only applicable for persistent disks". An
    # insert with labels on a SCRATCH disk fails (github.com/taskcluster/taskcluster/issues/6958 and pull/6959). The
    # API's message is not known; this message is the sandbox's.
    for index, disk in enumerate(instance.get("disks") or []):
        labels = disk.get("initializeParams", {}).get("labels")
        if labels and disk.get("type") == "SCRATCH":
            field = f"resource.disks[{index}].initializeParams.labels"
            yield errors.invalid(field, str(labels), "Labels are only applicable for persistent disks.")
