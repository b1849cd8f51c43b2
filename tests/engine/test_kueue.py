"""Tests of a pool on EKS with a quota of Kueue and the real engine: what is added, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import bring_up, copied
from tests.engine import eks
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

RELEASE, KUEUE, FLAVOR = "a10g-runners-release", "example-ci-kueue-release", "example-ci-kueue-flavor"
VISION, SPEECH, LOCAL = "example-ci-kueue-vision", "example-ci-kueue-speech", "example-ci-runners-queue-vision"
POD = "kubernetes:core/v1:Pod"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def pool(shared: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which a pool on EKS without Kueue is deployed."""
    project = eks.project(shared)
    with closing(copied(project, bring_up(project), tmp_path / "a sandbox")) as runner:
        yield runner


def up(pool: SandboxRunner, vision: int, **fields: Any) -> list[tuple[str, str]]:
    """Run `up` with Kueue and this quota of the pool's queue. Return the steps."""
    queues = {"vision": {"gpus": vision, "cohort": "gpu"}, "speech": {"gpus": 1, "cohort": "gpu", "borrowingLimit": 0}}
    changes: dict[tuple[str, ...], Any] = {
        ("gpu-ci:clusters", "example-ci", "kueue"): {"queues": queues},
        ("gpu-ci:pools", "a10g", "queue"): "vision",
        **{("gpu-ci:pools", "a10g", name): value for name, value in fields.items()},
    }
    file = pool.stack_file("Pulumi.staging.yaml", changes)
    _, done = pool.steps(*eks.UP, "--config-file", str(file))
    return done


@pytest.mark.slow
def test_quotas_are_added_changed_and_removed_without_another_check_or_scale_set(pool: SandboxRunner) -> None:
    done = up(pool, 1, minIdle=2)
    created = [name for operation, name in done if operation == "create"]
    ordered = ["example-ci-kueue-namespace", KUEUE, FLAVOR, VISION, LOCAL]
    assert sorted(ordered, key=created.index) == ordered
    assert sorted({*created} - {*ordered}) == ["example-ci-kueue", SPEECH]
    assert [each for each in done if each[0] != "create"] == [
        ("update", "example-ci-runners-namespace"),
        ("update", RELEASE),
    ]
    # The queue borrows the second GPU from the other one. The pod of the check is in no queue.
    labelled = [row for row in pool.world() if row["type"] == POD and "labels" in row["inputs"]["metadata"]]
    pods = [row for row in labelled if QUEUE_LABEL in row["inputs"]["metadata"]["labels"]]
    assert ["smoke-job" in row["name"] for row in labelled if row not in pods] == [True]
    assert [row["inputs"]["metadata"]["labels"] for row in pods] == [{QUEUE_LABEL: "vision"}] * 2
    assert [row["outputs"]["status"]["phase"] for row in pods] == ["Running"] * 2

    assert up(pool, 1, minIdle=2) == []
    assert up(pool, 2, minIdle=2) == [("update", VISION)]

    _, done = pool.steps("destroy", "--stack", "staging", "--yes")
    deleted = [name for operation, name in done if operation == "delete"]
    order = [RELEASE, LOCAL, VISION, FLAVOR, KUEUE]
    assert sorted(order, key=deleted.index) == order
    kinds = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
    assert sorted(row["id"] for row in pool.world()) == [f"{kind}.actions.github.com" for kind in kinds]
