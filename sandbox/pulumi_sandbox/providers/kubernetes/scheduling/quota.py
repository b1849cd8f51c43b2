"""Check the resource quotas of a namespace, with the messages of the admission plugin.

Sources: k8s.io/apiserver v0.36.0, pkg/admission/plugin/resourcequota/controller.go, CheckRequest; for the usage of a
pod, k8s.io/kubernetes v1.36.0, pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import format_quantity, quantity
from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.rules import is_extended
from pulumi_sandbox.providers.kubernetes.scheduling.fit import requests
from pulumi_sandbox.world.store import World

COMPUTE = ("cpu", "ephemeral-storage", "memory")
QUOTA, POD = "kubernetes:core/v1:ResourceQuota", "kubernetes:core/v1:Pod"
ENDED = ("Succeeded", "Failed")


def usage(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the usage of a pod by quota key. GPUs count only as requests.nvidia.com/gpu."""
    amounts = {"pods": Fraction(1)}
    for name, amount in requests(spec).items():
        if name in COMPUTE:
            amounts |= {name: amount, f"requests.{name}": amount}
        elif is_extended(name):
            amounts[f"requests.{name}"] = amount
    for name, amount in _limits(spec).items():
        if name in COMPUTE:
            amounts[f"limits.{name}"] = amount
    return amounts


def _limits(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    containers = [
        {"resources": {"limits": inner(one, "resources", "limits")}} for _, one in items(spec.get("containers"))
    ]
    return requests({"containers": containers})


def refusals(world: World, namespace: str, name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why a quota refuses a pod."""
    pod_usage = usage(spec)
    for row in world.find(QUOTA):
        if inner(row.inputs, "metadata", "namespace") != namespace:
            continue
        limits_of_quota = pairs(inner(row.inputs, "spec", "hard"))
        hard = {key: amount for key, value in limits_of_quota if (amount := quantity(value)) is not None}
        quota = str(inner(row.inputs, "metadata", "name"))
        start = f'pods "{name}" is forbidden'
        if missing := sorted(key for key in hard if key not in pod_usage and key.rpartition(".")[2] in COMPUTE):
            container_names = ",".join(str(one.get("name")) for _, one in items(spec.get("containers")))
            keys = "; ".join(f"{key} for: {container_names}" for key in missing)
            yield f"{start}: failed quota: {quota}: must specify {keys}"
            continue
        used = {key: _used(world, namespace, key) for key in hard if key in pod_usage}
        exceeded = [key for key in sorted(used) if used[key] + pod_usage[key] > hard[key]]
        if exceeded:
            yield (
                f"{start}: exceeded quota: {quota}, requested: {_amounts(exceeded, pod_usage)}, "
                f"used: {_amounts(exceeded, used)}, limited: {_amounts(exceeded, hard)}"
            )


def _used(world: World, namespace: str, name: str) -> Fraction:
    running_pods = (
        row
        for row in world.find(POD)
        if inner(row.inputs, "metadata", "namespace") == namespace
        and inner(row.outputs, "status", "phase") not in ENDED
    )
    return sum((usage(inner(row.inputs, "spec") or {}).get(name, Fraction(0)) for row in running_pods), Fraction(0))


def _amounts(names: list[str], amounts: Mapping[str, Fraction]) -> str:
    return ",".join(f"{name}={_format_amount(name, amounts[name])}" for name in names)


def _format_amount(name: str, amount: Fraction) -> str:
    """Print a sum of amounts. Memory and storage use binary units, as most manifests do."""
    return format_quantity(amount, binary="memory" in name or "storage" in name)
