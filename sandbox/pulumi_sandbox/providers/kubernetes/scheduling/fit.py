"""Check that a pod fits a node, with the scheduler's messages.

Source: k8s.io/kubernetes v1.36.0, pkg/scheduler/framework: plugins/{tainttoleration,nodeaffinity,noderesources}. The
checks run in the order of the default profile. The first failed check gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import quantity
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.rules.selectors import fits
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node, Taint

UNTOLERATED = "node(s) had untolerated taint(s)"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NO_NODES = "no nodes available to schedule pods"
BLOCKING = ("NoSchedule", "NoExecute")
Amounts = Mapping[str, Fraction]


@dataclass(frozen=True)
class Misfit:
    """The reasons why a pod does not fit a node; not final if the end of another pod would help."""

    reasons: tuple[str, ...]
    final: bool = True


def requests(spec: Mapping[str, Any], kind: str = "requests") -> dict[str, Fraction]:
    """Return the requests of a pod: for each resource, the sum of its containers or its largest init container."""
    total: dict[str, Fraction] = {}
    for _, one in items(spec.get("containers")):
        for name, amount in _requested(one, kind).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for _, one in items(spec.get("initContainers")):
        for name, amount in _requested(one, kind).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _requested(container: Mapping[str, Any], kind: str) -> dict[str, Fraction]:
    given = inner(container, "resources") or {}
    # The default of a request is the limit (pkg/apis/core/v1/defaults.go, SetDefaults_Pod).
    amounts = {**(inner(given, "limits") or {}), **(inner(given, kind) or {})}
    return {name: amount for name, value in pairs(amounts) if (amount := quantity(value)) is not None}


def tolerates(tolerations: Any, taint: Taint) -> bool:
    """Return True if a toleration matches the taint (k8s.io/api v0.36.0, core/v1/toleration.go, ToleratesTaint)."""
    return any(
        one.get("effect") in (None, "", taint.effect)
        and one.get("key") in (None, "", taint.key)
        and (one.get("operator") == "Exists" or (one.get("value") or "") == taint.value)
        for _, one in items(tolerations)
    )


def is_wanted(spec: Mapping[str, Any], node: Node) -> bool:
    """Return True if the node matches the nodeSelector and every expression of one required affinity term."""
    if any(node.labels.get(name) != value for name, value in pairs(spec.get("nodeSelector"))):
        return False
    required = inner(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node.name}
    return any(
        all(fits(one, node.labels) for _, one in items(term.get("matchExpressions")))
        and all(fits(one, fields) for _, one in items(term.get("matchFields")))
        and bool(term.get("matchExpressions") or term.get("matchFields"))
        for _, term in items(inner(required, "nodeSelectorTerms"))
    )


def takes_daemon(spec: Mapping[str, Any], node: Node) -> bool:
    """Return True if a DaemonSet runs a pod on the node; free resources do not matter.

    Source: pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod.
    """
    return is_wanted(spec, node) and not _untolerated(spec, node)


def _untolerated(spec: Mapping[str, Any], node: Node) -> bool:
    return any(one.effect in BLOCKING and not tolerates(spec.get("tolerations"), one) for one in node.taints)


def misfit(spec: Mapping[str, Any], node: Node, used: Amounts) -> Misfit | None:
    if _untolerated(spec, node):
        return Misfit((UNTOLERATED,))
    if not is_wanted(spec, node):
        return Misfit((NO_AFFINITY,))
    reasons, final = [], False
    for name, asked in requests(spec).items():
        there = node.allocatable.get(name, Fraction(0) if "/" in name else None)
        if there is not None and asked and asked > there - used.get(name, Fraction(0)):
            reasons.append(f"Insufficient {name}")
            final = final or asked > there
    return Misfit(tuple(reasons), final) if reasons else None


def unschedulable(found: Sequence[Misfit]) -> str:
    """Return the scheduler's message for a pod that fits no node.

    Sources: framework/types.go (FitError); framework/preemption and plugins/defaultpreemption for the part about
    preemption; plugins/dynamicresources for the part about claims.
    """
    if not found:
        return NO_NODES
    total = f"0/{len(found)} nodes are available"
    why = _counted(reason for one in found for reason in one.reasons)
    helpless = [
        "Preemption is not helpful for scheduling" if one.final else "No preemption victims found for incoming pod"
        for one in found
    ]
    return f"{total}: {why}. no new claims to deallocate, preemption: {total}: {_counted(helpless)}."


def _counted(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
