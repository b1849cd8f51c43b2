"""Pods fit nodes or not, with the messages of the scheduler of Kubernetes 1.36."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node, Taint
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import misfits, requests

GPU = "nvidia.com/gpu"
NODE = Node(
    "n",
    {"gpu": "t4", "kubernetes.io/arch": "amd64"},
    (Taint(GPU, "present"),),
    {"cpu": Fraction(4), "memory": Fraction(16 * 1024**3), GPU: Fraction(1)},
)
TOLERATED = {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]}
NO_AFFINITY = ["node(s) didn't match Pod's node affinity/selector"]


def asking(**amounts: Any) -> dict[str, Any]:
    return {**TOLERATED, "containers": [{"name": "c", "resources": {"limits": amounts}}]}


def wanting(*expressions: dict[str, Any]) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions)}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**TOLERATED, "affinity": {"nodeAffinity": wanted}}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": GPU, "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": GPU, "value": "present", "effect": "NoSchedule"}, True),
        ({"key": GPU, "value": "true", "effect": "NoSchedule"}, False),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_is_tolerated_by_key_value_and_effect(toleration: dict[str, Any], fits: bool) -> None:
    message = misfits({"tolerations": [toleration]}, NODE, {})
    assert message == ([] if fits else ["node(s) had untolerated taint(s)"])


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "gpu", "operator": "In", "values": ["l4", "t4"]}, True),
        ({"key": "gpu", "operator": "In", "values": ["l4"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["l4"]}, True),
        ({"key": "gpu", "operator": "NotIn", "values": ["t4"]}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "other", "operator": "DoesNotExist"}, True),
        ({"key": "gpu", "operator": "DoesNotExist"}, False),
    ],
)
def test_the_operators_of_affinity(expression: dict[str, Any], fits: bool) -> None:
    assert misfits(wanting(expression), NODE, {}) == ([] if fits else NO_AFFINITY)


def test_room_is_counted_with_what_runs_there() -> None:
    assert misfits(asking(**{GPU: 1, "cpu": 4}), NODE, {}) == []
    assert misfits(asking(**{GPU: 1}), NODE, {GPU: Fraction(1)}) == [f"Insufficient {GPU}"]
    assert misfits(asking(cpu="4100m", memory="17Gi"), NODE, {}) == ["Insufficient cpu", "Insufficient memory"]
    # A machine of unknown size has room for any pod, and no GPU.
    assert misfits(asking(cpu=500), Node("n"), {}) == []
    assert misfits(asking(**{GPU: 1}), Node("n"), {}) == [f"Insufficient {GPU}"]


def test_a_pod_asks_for_the_sum_of_its_containers_or_its_largest_init_container() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}}},
            {"resources": {"limits": {"cpu": "500m"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": 3}}}, {"resources": {"requests": {GPU: 1}}}],
    }
    assert requests(spec) == {"cpu": 3, GPU: 1}
