"""Deployments for the tests of clusters, and the scheduling rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_ci.component import Component
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED, scale_set_wiring

GPU_TAINT = {"key": gpu_nodes.TAINT_KEY, "value": gpu_nodes.TAINT_VALUE, "effect": gpu_nodes.TAINT_EFFECT}


def build(component: type[Component], name: str, **choices: Any) -> Deployment:
    """A component that needs no wiring, from its own example with these changes."""
    return deploy(lambda: component(name, component.ARGS(**{**component.EXAMPLE, **choices})), computed=COMPUTED)


def scale_set(**changes: Any) -> Deployment:
    """A runner scale set called `gpu`, from its own example with these changes."""

    def program() -> None:
        RunnerScaleSet("gpu", RunnerScaleSetArgs(**{**RunnerScaleSet.EXAMPLE, **scale_set_wiring(), **changes}))

    return deploy(program, computed=COMPUTED)


def values(deployment: Deployment) -> dict[str, Any]:
    """Return the inputs of the one Helm release of a deployment."""
    found: dict[str, Any] = deployment.one(":Release").inputs["values"]
    return found


def may_go(pod: Mapping[str, Any], labels: Mapping[str, str], taints: list[dict[str, str]]) -> bool:
    """Return True if the scheduler could place the pod there, by its selector, required affinity and tolerations
    (kubernetes.io/docs/concepts/scheduling-eviction, "Assigning Pods to Nodes" and "Taints and Tolerations")."""
    selected = pod.get("nodeSelector", {}).items() <= labels.items()
    tolerated = all(any(_tolerates(each, taint) for each in pod.get("tolerations", [])) for taint in taints)
    return selected and tolerated and _attracted(pod.get("affinity", {}), labels)


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"] or toleration.get("key", "") not in (
        "",
        taint["key"],
    ):
        return False
    return toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == taint["value"]


def _attracted(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is None:
        return True
    return any(all(_holds(each, labels) for each in term["matchExpressions"]) for term in wanted["nodeSelectorTerms"])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    among = labels.get(expression["key"]) in expression["values"]
    return {"In": among, "NotIn": not among}[expression["operator"]]
