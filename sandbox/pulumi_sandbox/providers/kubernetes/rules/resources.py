"""Classify and check resource names (k8s.io/kubernetes v1.36.0, pkg/apis/core/helper/helpers.go)."""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_sandbox.providers.kubernetes.fields import invalid, label_key
from pulumi_sandbox.providers.resource import Problem

# integerResources, which are counted in whole numbers, and the rest of standardQuotaResources.
COUNTED = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
    "services.loadbalancers", "services.nodeports",
)  # fmt: skip
COMPUTE = ("cpu", "ephemeral-storage", "memory")
QUOTA = frozenset(
    {*COUNTED, *COMPUTE, *(f"{kind}.{name}" for kind in ("limits", "requests") for name in COMPUTE), "requests.storage"}
)
STANDARD = QUOTA | {"storage"}
HUGE = ("hugepages-", "requests.hugepages-")


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return True for a resource of a device plugin, such as nvidia.com/gpu."""
    return not is_native(name) and not name.startswith("requests.") and not any(label_key(f"requests.{name}"))


def is_whole(name: str) -> bool:
    return name in COUNTED or is_extended(name)


def is_overcommitted(name: str) -> bool:
    """Return True if the resource may be overcommitted (IsOvercommitAllowed)."""
    return is_native(name) and not name.startswith("hugepages-")


def resource_name(path: str, name: str) -> Iterator[Problem]:
    """Check the name of a resource (validateResourceName)."""
    wrong = [invalid(path, name, message) for message in label_key(name)]
    yield from wrong
    if not wrong and "/" not in name and name not in STANDARD and not name.startswith(HUGE):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def quota_name(path: str, name: str) -> Iterator[Problem]:
    """Check the name of a resource in a quota (ValidateResourceQuotaResourceName)."""
    yield from resource_name(path, name)
    if "/" not in name and name not in QUOTA and not name.startswith(HUGE):
        yield invalid(path, name, "must be a standard resource for quota")
