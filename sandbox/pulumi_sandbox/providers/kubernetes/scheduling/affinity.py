"""Check required anti-affinity between pods, with the scheduler's messages.

Pods that have ended do not count. Source: k8s.io/kubernetes v1.36.0,
pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.rules.selectors import matches
from pulumi_sandbox.providers.kubernetes.scheduling.fit import Misfit
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node

OWN_RULE = "node(s) didn't match pod anti-affinity rules"
RULE_OF_OTHER_POD = "node(s) didn't satisfy existing pods anti-affinity rules"


class Pod(NamedTuple):
    """The metadata and the spec of a pod, and its node."""

    meta: Mapping[str, Any]
    spec: Mapping[str, Any]
    node: Node


def anti_affinity(pod: Pod, others: Iterable[Pod]) -> Misfit | None:
    """Return the anti-affinity that keeps a pod off a node. The misfit is not final, as other pods may end."""
    other_pods = list(others)
    if any(_excludes(pod, other) for other in other_pods):
        return Misfit((OWN_RULE,), final=False)
    if any(_excludes(other, pod) for other in other_pods):
        return Misfit((RULE_OF_OTHER_POD,), final=False)
    return None


def _excludes(pod: Pod, other: Pod) -> bool:
    """Return True if a term of the pod matches the other pod in the same topology domain."""
    for term in _terms(pod.spec):
        namespaces = term.get("namespaces") or [pod.meta.get("namespace")]
        key = str(term.get("topologyKey"))
        same_domain = key in pod.node.labels and pod.node.labels[key] == other.node.labels.get(key)
        selects_other = matches(term.get("labelSelector"), other.meta.get("labels") or {})
        if same_domain and selects_other and other.meta.get("namespace") in namespaces:
            return True
    return False


def _terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    given = inner(spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return (term for _, term in items(given))
