"""Tests of a pool on EKS with a quota of Kueue and the real engine: what is added, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

RELEASE, KUEUE, FLAVOR = "a10g-runners-release", "example-ci-kueue-release", "example-ci-kueue-flavor"
VISION, SPEECH, LOCAL = "example-ci-kueue-vision", "example-ci-kueue-speech", "example-ci-runners-queue-vision"
NAMESPACE = "example-ci-kueue-namespace"
POD = "kubernetes:core/v1:Pod"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CLUSTER, POOL = ("gpu-ci:clusters", "example-ci"), ("gpu-ci:pools", "a10g")
QUEUES = {"vision": {"gpus": 1, "cohort": "gpu"}, "speech": {"gpus": 1, "cohort": "gpu", "borrowingLimit": 0}}


def project(shared: Path) -> Path:
    """Return this project with only the pool a10g of staging, whose runners use a queue."""
    config = stack.on_eks()
    config["gpu-ci:clusters"]["example-ci"]["kueue"] = {"queues": QUEUES}
    config["gpu-ci:pools"]["a10g"]["queue"] = "vision"
    return project_of(shared, "kueue", config, eks.settings())


@pytest.fixture(scope="session")
def up_with_kueue(shared: Path) -> BroughtUp:
    return bring_up(project(shared))


@pytest.fixture
def pool(up_with_kueue: BroughtUp, shared: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the pool is deployed."""
    with closing(copied(project(shared), up_with_kueue, tmp_path / "a sandbox")) as runner:
        yield runner


def changed(pool: SandboxRunner, changes: dict[tuple[str, ...], Any]) -> list[tuple[str, str]]:
    """Run `up` with these changes of the stack file. Return the steps."""
    file = pool.stack_file("Pulumi.staging.yaml", changes)
    return pool.steps(*eks.UP, "--config-file", str(file))[1]


@pytest.mark.slow
def test_kueue_comes_first_then_its_queues_then_the_runners(up_with_kueue: BroughtUp, pool: SandboxRunner) -> None:
    names = [name for operation, name in up_with_kueue.done if operation == "create"]
    for order in ([NAMESPACE, KUEUE, FLAVOR, VISION, LOCAL, RELEASE], [KUEUE, SPEECH, LOCAL]):
        assert sorted(order, key=names.index) == order
    # The pods of runners are in the queue, and the pod of the check is in none.
    [runners] = [row for row in pool.world() if row["type"] == RUNNER_SET]
    assert runners["inputs"]["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] == "vision"
    [check] = [row for row in pool.world() if row["type"] == POD]
    assert QUEUE_LABEL not in check["inputs"]["metadata"]["labels"]


@pytest.mark.slow
def test_a_changed_quota_is_an_update_of_its_queue_alone(pool: SandboxRunner) -> None:
    queues = {**QUEUES, "vision": {"gpus": 2, "cohort": "gpu"}}
    assert changed(pool, {(*CLUSTER, "kueue", "queues"): queues}) == [("update", VISION)]


@pytest.mark.slow
def test_runners_are_deleted_before_their_queues_and_the_queues_before_kueue(pool: SandboxRunner) -> None:
    _, done = pool.steps("destroy", "--stack", "staging", "--yes")
    deleted = [name for operation, name in done if operation == "delete"]
    order = [RELEASE, LOCAL, VISION, FLAVOR, KUEUE, NAMESPACE]
    assert sorted(order, key=deleted.index) == order
    kinds = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
    assert sorted(row["id"] for row in pool.world()) == [f"{kind}.actions.github.com" for kind in kinds]
