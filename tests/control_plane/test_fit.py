"""Runs the sandbox's tests of which pod fits which node, with the real scheduler instead of the sandbox's rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.fit import Misfit
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Node

from tests.control_plane.cluster_state import Both
from tests.sandbox.providers.kubernetes.scheduling import test_fit

SAID = re.compile(r"0/1 nodes are available: 1 (.*)\. no new claims to deallocate, preemption: .* 1 (.*)\.")
FINAL = "Preemption is not helpful for scheduling"


@pytest.fixture(autouse=True)
def real_scheduler(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def misfit(spec: Mapping[str, Any], node: Node, _: object) -> Misfit | None:
        # The API omits empty values.
        taints = [{name: text for name, text in vars(one).items() if text} for one in node.taints]
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        both.nodes({"name": node.name, "labels": dict(node.labels), "taints": taints, "allocatable": amounts})
        pod = {"containers": [{"name": "c", "image": "x"}], **spec}
        name = f"fits-{next(numbers)}"
        both.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": pod})
        decided = both.decided("default", name)
        if decided["spec"].get("nodeName"):
            return None
        said = SAID.fullmatch(decided["status"]["conditions"][0]["message"])
        assert said
        return Misfit((said[1],), final=said[2] == FINAL)

    monkeypatch.setattr(test_fit, "misfit", misfit)
