"""Check the resource quotas of a namespace, with the messages of the admission plugin.

Sources: k8s.io/apiserver v0.36.0, pkg/admission/plugin/resourcequota/controller.go, CheckRequest; for the usage of a
pod, k8s.io/kubernetes v1.36.0, pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import printed, quantity
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.rules.resources import COMPUTE, is_extended
from pulumi_sandbox.providers.kubernetes.scheduling.fit import requests
from pulumi_sandbox.world.store import World

QUOTA, POD = "kubernetes:core/v1:ResourceQuota", "kubernetes:core/v1:Pod"
ENDED = ("Succeeded", "Failed")


def usage(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the usage of a pod by quota key. GPUs count only as requests.nvidia.com/gpu."""
    found = {"pods": Fraction(1), "count/pods": Fraction(1)}
    for name, amount in requests(spec).items():
        if name in COMPUTE:
            found |= {name: amount, f"requests.{name}": amount}
        elif is_extended(name):
            found[f"requests.{name}"] = amount
    for name, amount in limits(spec).items():
        if name in COMPUTE:
            found[f"limits.{name}"] = amount
    return found


def limits(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    limited = [{"resources": {"limits": inner(one, "resources", "limits")}} for _, one in items(spec.get("containers"))]
    return requests({"containers": limited})


def refusals(world: World, namespace: str, name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why a quota refuses a pod."""
    asked = usage(spec)
    for row in world.find(QUOTA):
        if inner(row.inputs, "metadata", "namespace") != namespace:
            continue
        given = pairs(inner(row.inputs, "spec", "hard"))
        hard = {key: amount for key, value in given if (amount := quantity(value)) is not None}
        quota = str(inner(row.inputs, "metadata", "name"))
        text = f'pods "{name}" is forbidden'
        if missing := sorted(key for key in hard if key not in asked and key.rpartition(".")[2] in COMPUTE):
            who = ",".join(str(one.get("name")) for _, one in items(spec.get("containers")))
            yield f"{text}: failed quota: {quota}: must specify {'; '.join(f'{key} for: {who}' for key in missing)}"
            continue
        used = {key: _used(world, namespace, key) for key in hard if key in asked}
        over = [key for key in sorted(used) if used[key] + asked[key] > hard[key]]
        if over:
            yield (
                f"{text}: exceeded quota: {quota}, requested: {_amounts(over, asked)}, used: {_amounts(over, used)}, "
                f"limited: {_amounts(over, hard)}"
            )


def uncounted(hard: Any) -> list[str]:
    """Return the quota keys without effect.

    Extended resources are counted only by their requests. The API accepts other keys of them, but counts nothing.
    """
    return [name for name, _ in pairs(hard) if is_extended(name) and not name.startswith("count/")]


def _used(world: World, namespace: str, name: str) -> Fraction:
    living = (
        row
        for row in world.find(POD)
        if inner(row.inputs, "metadata", "namespace") == namespace
        and (name == "count/pods" or inner(row.outputs, "status", "phase") not in ENDED)
    )
    return sum((usage(inner(row.inputs, "spec") or {}).get(name, Fraction(0)) for row in living), Fraction(0))


def _amounts(names: list[str], amounts: Mapping[str, Fraction]) -> str:
    return ",".join(f"{name}={_format_amount(name, amounts[name])}" for name in names)


def _format_amount(name: str, amount: Fraction) -> str:
    """Print a sum of amounts. Memory and storage use binary units, as most manifests do."""
    return printed(amount, binary="memory" in name or "storage" in name)
