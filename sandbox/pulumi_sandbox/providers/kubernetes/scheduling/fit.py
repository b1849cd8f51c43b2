"""Check that a pod fits a node, with the scheduler's messages.

Source: k8s.io/kubernetes v1.36.0, pkg/scheduler/framework: plugins/{tainttoleration,nodeaffinity,noderesources}. The
checks run in the order of the default profile. The first failed check gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from pulumi_sandbox.providers.kubernetes.objects import inner, items, meets, pairs
from pulumi_sandbox.providers.kubernetes.quantities import amounts
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node, Taint

UNTOLERATED = "node(s) had untolerated taint(s)"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NO_NODES = "no nodes available to schedule pods"
BLOCKING = ("NoSchedule", "NoExecute")
Amounts = Mapping[str, Fraction]
Misfit: TypeAlias = tuple[str, ...]
"""The reasons why a pod does not fit a node."""


def requests(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the requests of a pod: for each resource, the sum of its containers or its largest init container."""
    total: dict[str, Fraction] = {}
    for _, one in items(spec.get("containers")):
        for name, amount in _container_requests(one).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for _, one in items(spec.get("initContainers")):
        for name, amount in _container_requests(one).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _container_requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    resources = inner(container, "resources") or {}
    # The default of a request is the limit (pkg/apis/core/v1/defaults.go, SetDefaults_Pod).
    return amounts({**(inner(resources, "limits") or {}), **(inner(resources, "requests") or {})})


def tolerates(tolerations: Any, taint: Taint) -> bool:
    """Return True if a toleration matches the taint (k8s.io/api v0.36.0, core/v1/toleration.go, ToleratesTaint)."""
    return any(
        one.get("effect") in (None, "", taint.effect)
        and one.get("key") in (None, "", taint.key)
        and (one.get("operator") == "Exists" or (one.get("value") or "") == taint.value)
        for _, one in items(tolerations)
    )


def matches_affinity(spec: Mapping[str, Any], node: Node) -> bool:
    """Return True if the node matches the nodeSelector and every expression of one required affinity term."""
    if any(node.labels.get(name) != value for name, value in pairs(spec.get("nodeSelector"))):
        return False
    required = inner(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node.name}
    return any(
        all(meets(one, node.labels) for _, one in items(term.get("matchExpressions")))
        and all(meets(one, fields) for _, one in items(term.get("matchFields")))
        and bool(term.get("matchExpressions") or term.get("matchFields"))
        for _, term in items(inner(required, "nodeSelectorTerms"))
    )


def runs_daemon(spec: Mapping[str, Any], node: Node) -> bool:
    """Return True if a DaemonSet runs a pod on the node; free resources do not matter.

    Source: pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod.
    """
    return matches_affinity(spec, node) and not _has_untolerated_taint(spec, node)


def _has_untolerated_taint(spec: Mapping[str, Any], node: Node) -> bool:
    return any(one.effect in BLOCKING and not tolerates(spec.get("tolerations"), one) for one in node.taints)


def _as_admitted(spec: Mapping[str, Any], node: Node) -> Mapping[str, Any]:
    """Return a pod with the tolerations that the API server adds.

    Source: plugin/pkg/admission/extendedresourcetoleration/admission.go.
    """
    if not node.adds_tolerations:
        return spec
    added = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in requests(spec) if "/" in name]
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), *added]}


def misfit_of(spec: Mapping[str, Any], node: Node, used: Amounts) -> Misfit | None:
    if _has_untolerated_taint(_as_admitted(spec, node), node):
        return (UNTOLERATED,)
    if not matches_affinity(spec, node):
        return (NO_AFFINITY,)
    reasons = []
    for name, requested in requests(spec).items():
        allocatable = node.allocatable.get(name, Fraction(0) if "/" in name else None)
        if allocatable is not None and requested and requested > allocatable - used.get(name, Fraction(0)):
            reasons.append(f"Insufficient {name}")
    return tuple(reasons) or None


def unschedulable_message(misfits: Sequence[Misfit]) -> str:
    """Return the scheduler's message for a pod that fits no node, without its part about preemption.

    Source: framework/types.go (FitError).
    """
    if not misfits:
        return NO_NODES
    counts = Counter(reason for misfit in misfits for reason in misfit)
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(misfits)} nodes are available: {reasons}."
