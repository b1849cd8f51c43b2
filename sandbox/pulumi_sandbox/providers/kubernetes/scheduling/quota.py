"""Check the resource quotas of a namespace, with the messages of the admission plugin.

Sources: k8s.io/apiserver v0.36.0, pkg/admission/plugin/resourcequota/controller.go, CheckRequest; for the usage of a
pod, k8s.io/kubernetes v1.36.0, pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import amounts, format_quantity
from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.rules import is_extended
from pulumi_sandbox.providers.kubernetes.scheduling.fit import requests
from pulumi_sandbox.world.store import World

COMPUTE = ("cpu", "ephemeral-storage", "memory")
QUOTA, POD = "kubernetes:core/v1:ResourceQuota", "kubernetes:core/v1:Pod"
ENDED = ("Succeeded", "Failed")


def usage(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the usage of a pod by quota key. GPUs count only as requests.nvidia.com/gpu. Limits are not counted."""
    counted = {"pods": Fraction(1)}
    for name, amount in requests(spec).items():
        if name in COMPUTE:
            counted[name] = amount
        if name in COMPUTE or is_extended(name):
            counted[f"requests.{name}"] = amount
    return counted


def refusals(world: World, namespace: str, name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why a quota refuses a pod."""
    pod_usage = usage(spec)
    for row in world.find(QUOTA):
        if inner(row.inputs, "metadata", "namespace") != namespace:
            continue
        hard, quota = amounts(inner(row.inputs, "spec", "hard")), str(inner(row.inputs, "metadata", "name"))
        start = f'pods "{name}" is forbidden'
        missing = sorted(key for key in hard if key not in pod_usage and key.removeprefix("requests.") in COMPUTE)
        if missing:
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


def _amounts(names: list[str], of: Mapping[str, Fraction]) -> str:
    """Print amounts. Memory and storage use binary units, as most manifests do."""
    return ",".join(
        f"{name}={format_quantity(of[name], binary='memory' in name or 'storage' in name)}" for name in names
    )
