"""Pods that keep each other off: required anti-affinity between pods, in the words of the scheduler.

k8s.io/kubernetes v1.36.0, pkg/scheduler/framework/plugins/interpodaffinity/filtering.go. Pods that have ended keep
nobody off: the scheduler forgets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.rules.selectors import matches
from pulumi_sandbox.providers.kubernetes.scheduling.fit import Misfit
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node

OWN = "node(s) didn't match pod anti-affinity rules"
THEIRS = "node(s) didn't satisfy existing pods anti-affinity rules"


class Pod(NamedTuple):
    """What counts of a pod here, and the node it is on."""

    meta: Mapping[str, Any]
    spec: Mapping[str, Any]
    node: Node


def kept_off(pod: Pod, others: Iterable[Pod]) -> Misfit | None:
    """Why a pod does not go onto a node beside others; these may leave, so it is not final."""
    there = list(others)
    if any(_repels(pod, other) for other in there):
        return Misfit((OWN,), final=False)
    if any(_repels(other, pod) for other in there):
        return Misfit((THEIRS,), final=False)
    return None


def _repels(pod: Pod, other: Pod) -> bool:
    """Whether a term of the one is about the other, and both are in one place by its key."""
    for term in _terms(pod.spec):
        spaces = term.get("namespaces") or [pod.meta.get("namespace")]
        key = str(term.get("topologyKey"))
        same = key in pod.node.labels and pod.node.labels[key] == other.node.labels.get(key)
        about = matches(term.get("labelSelector"), other.meta.get("labels") or {})
        if same and about and other.meta.get("namespace") in spaces:
            return True
    return False


def _terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    given = inner(spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return (term for _, term in items(given))
