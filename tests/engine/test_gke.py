"""Tests of a program with a GKE node pool and the real engine: the pool, a Job on one of its nodes, and its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine import eks
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
POD = "kubernetes:core/v1:Pod"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[SandboxRunner]:
    with closing(eks.program("gke", tmp_path)) as runner:
        yield runner


def set_to(runner: SandboxRunner, **values: str) -> tuple[str, ...]:
    """Return the arguments of a command with other settings of the program."""
    changes = {(f"gke:{name}",): value for name, value in values.items()}
    return ("--config-file", str(runner.stack_file("Pulumi.dev.yaml", changes)))


@pytest.mark.slow
def test_a_pool_starts_a_node_for_a_job_changes_as_the_provider_says_and_leaves_nothing(program: SandboxRunner) -> None:
    up, done = program.steps(*UP)
    assert sorted(done) == [("create", name) for name in ("check", "gke-dev", "l4", "program")]
    assert done.index(("create", "l4")) < done.index(("create", "check"))
    assert up.has("the cluster autoscaler starts gke-ci-l4-", "the check ran on gke-ci-l4-")
    assert up.has('key   : "nvidia.com/gpu"')
    [pod] = [row for row in program.world() if row["type"] == POD]
    assert pod["outputs"]["status"]["phase"] == "Succeeded"

    _, again = program.steps(*UP, "--refresh")
    assert again == []

    _, larger = program.steps(*UP, *set_to(program, machine="g2-standard-12"))
    assert larger == [("update", "l4")]

    _, other = program.steps(*UP, *set_to(program, machine="g2-standard-12", driver="LATEST"))
    assert other == [("create-replacement", "l4"), ("replace", "l4"), ("delete-replaced", "l4")]

    program.run("destroy", "--stack", "dev", "--yes", "--skip-preview")
    assert program.world() == []


@pytest.mark.slow
def test_a_job_whose_image_does_not_find_the_driver_fails_and_says_why(program: SandboxRunner) -> None:
    failed, _ = program.steps(*UP, *set_to(program, libraries="/usr/local/cuda/lib64"), ok=False)
    assert failed.has(
        "check finds no libcuda.so.1: GKE mounts the driver at /usr/local/nvidia/lib64, "
        "which is not in LD_LIBRARY_PATH",
        "[BackoffLimitExceeded] Job has reached the specified backoff limit",
    )


@pytest.mark.slow
def test_a_quota_ends_the_job_and_the_next_up_passes(program: SandboxRunner) -> None:
    program.run("world", "break", "quota", "--on", "l4", "--times", "0")
    failed, _ = program.steps(*UP, ok=False)
    assert failed.has("associated with this pod failed: GCE quota exceeded. Pod is at risk of not being scheduled.")
    program.run("world", "mend", "--all")
    program.run(*UP)
