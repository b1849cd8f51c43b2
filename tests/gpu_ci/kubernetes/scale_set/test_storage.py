"""The cache and the scratch folder of jobs: the volumes of the pod, and the mistakes that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs

from tests.gpu_ci.kubernetes.clusters import scale_set, values

SHARED = {"kind": "shared", "claim": "models"}
SCRATCH = {"sizeGib": 200}


def pod(**changes: Any) -> dict[str, Any]:
    """Return the spec of the runner's pod."""
    spec: dict[str, Any] = values(scale_set(**changes))["template"]["spec"]
    return spec


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_one_runner_may_use_a_volume_of_one_node(mode: str) -> None:
    choices = {**RunnerScaleSet.EXAMPLE, "max": 1, "cache": {**SHARED, "accessMode": mode}}
    assert RunnerScaleSetArgs.choice_problems(choices) == []


def test_folders_with_a_common_beginning_are_separate() -> None:
    changes = {"cache": {**SHARED, "mountPath": "/mnt/a"}, "scratch": {**SCRATCH, "mountPath": "/mnt/ab"}}
    assert RunnerScaleSetArgs.choice_problems({**RunnerScaleSet.EXAMPLE, **changes}) == []
