"""Tests a check of two nodes with the real engine: both good, one with a fault, and one that never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engine import eks
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
GROUP, JOB = "l4-nodes", "l4-smoke-job"
FAILED = "* [BackoffLimitExceeded] Job has reached the specified backoff limit"
RIGHT = (
    r"l4 on l4-nodes-[0-9a-f]+-{}: 1 x NVIDIA L4: float32, float16, bfloat16 products are right, and the same every "
    r"time, one of 2 machines at once\n"
)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[SandboxRunner]:
    with closing(eks.program("whole_pool", tmp_path)) as runner:
        yield runner


def pods(pool: SandboxRunner) -> list[dict[str, Any]]:
    """Return the node, the exit code and the message of each pod of the check, by index."""
    found = [row["outputs"] for row in pool.world() if row["type"] == "kubernetes:core/v1:Pod"]
    ended = []
    for one in sorted(found, key=lambda pod: str(pod["spec"]["hostname"])):
        [state] = [state for state in one["status"]["containerStatuses"] if state["name"] == "gpu-smoke"]
        ended.append({"node": one["spec"].get("nodeName"), **state["state"]["terminated"]})
    return ended


def behind(pool: SandboxRunner) -> list[str]:
    return [row["name"] for row in pool.world() if row["name"] == "behind"]


@pytest.mark.slow
def test_two_nodes_are_started_for_the_check_and_both_pass(pool: SandboxRunner) -> None:
    up = pool.run(*UP)
    first, second = pods(pool)
    assert (first["exitCode"], second["exitCode"]) == (0, 0)
    assert first["node"] != second["node"]
    for pod in (first, second):
        assert re.fullmatch(RIGHT.format(pod["node"][-1]), pod["message"]), pod["message"]
        assert f"the cluster autoscaler starts {pod['node']} in the group" in up.output
    assert pool.json("stack", "output", "--stack", "dev", "--json") == {"provenNodes": 2, "verdict": "pass"}
    assert behind(pool) == ["behind"]
    _, done = pool.steps(*UP)
    assert done == []


@pytest.mark.slow
def test_one_faulty_node_of_two_fails_the_gate_and_the_next_up_checks_both_again(pool: SandboxRunner) -> None:
    wrong = eks.torch(gpus=[{"name": "NVIDIA L4", "cc": "8.9"}], faults=[{"kind": "element", "by": 3}])
    pool.run("world", "break", "guest", "--on", JOB, "--set", f"FAKE_TORCH={wrong}")
    failed = pool.run(*UP, ok=False)
    text = eks.diagnostics(failed.output)[JOB]
    [sick] = pods(pool)
    assert sick["exitCode"] == 1
    assert f"[Error] l4 on {sick['node']}: GPU 0 gave a wrong float32 product" in text
    assert text.rstrip().endswith(FAILED)
    assert behind(pool) == []

    pool.run(*UP)
    assert [pod["exitCode"] for pod in pods(pool)] == [0, 0]
    assert behind(pool) == ["behind"]
