"""One pass of the prover over the nodes of a pool, with a fake API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from gpu_smoke.nodes import command
from gpu_smoke.nodes.decision import Step

from .test_decision import SETTINGS, UNPROVEN, node


@dataclass
class FakeApi:
    """An API server with these objects, which refuses the first request of a pass."""

    objects: Mapping[str, list[Any]]
    sent: list[str] = field(default_factory=list)

    def items(self, path: str, labels: str = "") -> list[Any]:
        return self.objects.get(f"{path}?{labels}", [])

    def send(self, step: Step) -> None:
        self.sent.append(f"{step.method} {step.path}")
        if len(self.sent) == 1:
            raise command.RefusedError("409 conflict")


def test_a_refused_step_does_not_stop_the_others_and_a_missing_gpu_has_a_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = [node(UNPROVEN, name="a"), node(UNPROVEN, name="b", gpus=1)]
    api, short_since = FakeApi({"/api/v1/nodes?gpu-ci-pool=l4": nodes}), dict[str, datetime]()
    command.run_pass(api, SETTINGS, short_since)  # type: ignore[arg-type]
    assert api.sent == ["POST /apis/batch/v1/namespaces/gpu-ci/jobs"] * 2
    assert capsys.readouterr().err == "a: checks the node\nnot done: 409 conflict\nb: checks the node\n"
    [since] = short_since.items()
    command.run_pass(api, SETTINGS, short_since)  # type: ignore[arg-type]
    assert [*short_since.items()] == [since]
    nodes[1]["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    command.run_pass(api, SETTINGS, short_since)  # type: ignore[arg-type]
    assert (since[0], short_since) == ("uid-b", {})
