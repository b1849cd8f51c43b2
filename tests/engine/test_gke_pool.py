"""Tests of a stack file with a pool on GKE and the real engine: its order, its changes, its end, and its faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied
from tests.engine import eks, gke
from tests.engine.test_eks_gates import LATE, behind, shut
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

NEW_CHECK = [("create-replacement", gke.JOB), ("replace", gke.JOB)]


@pytest.fixture(scope="session")
def up_on_gke(shared: Path) -> BroughtUp:
    return bring_up(gke.project(shared))


@pytest.fixture
def pool(up_on_gke: BroughtUp, shared: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the pool is deployed."""
    with closing(copied(gke.project(shared), up_on_gke, tmp_path / "a sandbox")) as runner:
        yield runner


def changed(pool: SandboxRunner, **fields: Any) -> tuple[str, ...]:
    """Return the arguments of an `up` with other fields of the pool."""
    paths: dict[tuple[str, ...], Any] = {("gpu-ci:pools", "l4", name): value for name, value in fields.items()}
    return (*gke.UP, "--config-file", str(pool.stack_file("Pulumi.staging.yaml", paths)))


@pytest.mark.slow
def test_nodes_come_first_then_their_check_then_the_runners(up_on_gke: BroughtUp) -> None:
    names = [name for operation, name in up_on_gke.done if operation == "create"]
    order = ["l4-nodes-node-role", gke.NODES, gke.JOB, gke.RELEASE, "l4-runners-registered"]
    assert sorted(order, key=names.index) == order
    assert names.index("gke-ci-arc-release") < names.index(gke.RELEASE)
    assert [name for name in names if "plugin" in name] == []


@pytest.mark.slow
def test_a_second_up_changes_nothing_and_changes_are_those_of_the_replace_table(pool: SandboxRunner) -> None:
    _, done = pool.steps(*gke.UP, "--refresh")
    assert done == []
    _, done = pool.steps(*changed(pool, max=3))
    # The GPU quota of the namespace and the number of runners follow.
    assert sorted(done) == [("update", "gke-ci-runners-quota"), ("update", gke.NODES), ("update", gke.RELEASE)]
    _, done = pool.steps(*changed(pool, max=3, machineType="g2-standard-12"))
    assert done == [("update", gke.NODES), *NEW_CHECK, ("delete-replaced", gke.JOB)]
    _, done = pool.steps(*changed(pool, max=3, machineType="g2-standard-12", driver="LATEST"))
    assert done == [
        ("create-replacement", gke.NODES),
        ("replace", gke.NODES),
        *NEW_CHECK,
        ("delete-replaced", gke.JOB),
        ("delete-replaced", gke.NODES),
    ]
    # Both node pools existed during the check, and had the labels of the pool.
    [nodes] = [row for row in pool.world() if row["name"] == gke.NODES]
    [check] = [row for row in pool.world() if row["type"] == "kubernetes:core/v1:Pod"]
    assert f"-{nodes['outputs']['name']}-" in check["outputs"]["spec"]["nodeName"]


@pytest.mark.slow
def test_nodes_are_proven_one_by_one_without_a_change_of_nodes_check_or_scale_set(pool: SandboxRunner) -> None:
    changes = {"proveNodes": {"repeatAfterHours": 24}}
    begun, done = pool.steps(*changed(pool, **changes))
    updated = sorted(name for operation, name in done if operation == "update")
    names = [name for operation, name in done if operation == "create"]
    assert (updated, len(done)) == (["gke-ci-runners-quota", gke.NODES], len(names) + 2)
    assert names[-1] == "l4-prover"
    assert all(name.startswith("l4-prover") for name in names)
    # The prover removes the taint, so runners will start.
    assert "would stay Pending" not in begun.output
    assert pool.steps(*changed(pool, **changes))[1] == []
    _, done = pool.steps(*gke.UP)
    assert sorted(name for operation, name in done if operation == "delete") == sorted(names)
    assert len(done) == len(names) + 2


@pytest.mark.slow
def test_a_failed_check_leaves_the_scale_set_as_it_is(pool: SandboxRunner) -> None:
    wrong = gke.torch(faults=[{"kind": "raise", "text": "CUDA error: uncorrectable ECC error encountered"}])
    pool.run("world", "break", "guest", "--set", f"FAKE_TORCH={wrong}")
    failed, done = pool.steps(*changed(pool, machineType="g2-standard-12", minIdle=1), ok=False)
    assert done == [("update", gke.NODES)]
    assert failed.has("[Error] l4: GPU 0: multiplying float32 matrices failed: CUDA error: uncorrectable ECC error")
    [row] = [row for row in pool.world() if row["name"] == gke.RELEASE]
    assert row["inputs"]["values"]["minRunners"] == 0


@pytest.mark.slow
def test_clusters_of_two_clouds_come_up_in_one_stack_and_destroy_leaves_nothing(shared: Path, tmp_path: Path) -> None:
    with closing(SandboxRunner(project=gke.two_clouds(shared), folder=tmp_path / "a sandbox")) as runner:
        preview = ("preview", "--stack", "staging")
        assert runner.run(*preview).has(" to create")
        assert runner.world() == []
        # All containers have an L4, so only the check on GKE passes.
        failed, done = runner.steps(*gke.UP, "--continue-on-error", ok=False)
        assert list(shut(failed.output)) == ["a10g-smoke"]
        names = [name for operation, name in done if operation == "create"]
        assert names.index(gke.JOB) < names.index(gke.RELEASE)
        assert behind(runner, "-runners-release") == [gke.RELEASE]
        runner.run("world", "break", "guest", "--on", "a10g-smoke-job", "--set", f"FAKE_TORCH={eks.torch()}")
        _, done = runner.steps(*gke.UP)
        names = [name for operation, name in done if operation == "create"]
        assert names[-2:] == ["a10g-runners-release", "a10g-runners-registered"]
        assert [name for name in names if name.startswith("l4-")] == []
        runner.run(*preview, "--expect-no-changes")
        runner.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
        # Without its definitions, a cluster would lose every scale set, also those of other programs.
        assert {row["type"] for row in runner.world()} == {
            "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinitionPatch"
        } or runner.world() == []


@pytest.fixture(scope="session")
def unproven(shared: Path) -> BroughtUp:
    """Deploy the pool with an image that cannot be pulled. The deployment stops at the check."""
    return bring_up(gke.project(shared), ("image", "--message", "403 Forbidden"))


@pytest.fixture
def unchecked(unproven: BroughtUp, shared: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the check of the pool has not passed yet."""
    with closing(copied(gke.project(shared), unproven, tmp_path / "a sandbox")) as runner:
        yield runner


def said_while_shut(runner: SandboxRunner) -> str:
    """Return the error of an `up` that one check stops. No scale set exists after it."""
    failed, done = runner.steps(*gke.UP, ok=False)
    assert done == []
    assert behind(runner, "-runners-release") == []
    [text] = shut(failed.output).values()
    return text


@pytest.mark.slow
def test_a_pool_whose_image_cannot_be_pulled_gets_no_scale_set(unproven: BroughtUp) -> None:
    [text] = shut(unproven.output).values()
    assert '[ImagePullBackOff] Back-off pulling image "ghcr.io/example-org/cuda-runner:2.336.0@sha256:' in text
    assert re.search(rf'": 403 Forbidden\n\* {LATE}$', text, re.MULTILINE)
    names = [name for _, name in unproven.done]
    assert gke.NODES in names
    assert [name for name in names if name.startswith("l4-runners-")] == []


@pytest.mark.slow
def test_without_quota_or_capacity_the_check_ends_and_a_later_up_makes_the_scale_set(unchecked: SandboxRunner) -> None:
    for fault, words in {"quota": "GCE quota exceeded", "stockout": "GCE out of resources"}.items():
        unchecked.run("world", "break", fault, "--on", gke.NODES, "--times", "0")
        assert re.search(rf"the cluster autoscaler gets no node for [\w-]+: {words}", said_while_shut(unchecked))
        unchecked.run("world", "mend", "--all")
    _, done = unchecked.steps(*gke.UP)
    assert [name for operation, name in done if operation == "create"][-1] == "l4-runners-registered"
