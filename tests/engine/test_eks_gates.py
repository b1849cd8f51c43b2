"""Tests of each fault that fails the gate of GPU nodes on Kubernetes. No resource behind a failed gate is created."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import BroughtUp, bring_up, copied
from tests.engine import eks
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

LATE = r"\[DeadlineExceeded\] Job was active longer than specified deadline"


def shut(output: str) -> dict[str, str]:
    """Return the error of each failed Job, by its gate."""
    found = eks.diagnostics(output)
    return {name.rpartition("-job")[0]: text for name, text in found.items() if f"Job::{name}" in text}


def behind(runner: SandboxRunner, what: str) -> list[str]:
    return sorted(row["name"] for row in runner.world() if row["name"].endswith(what))


def said_while_shut(runner: SandboxRunner) -> str:
    """Return the error of an `up` that one check stops. No scale set exists after it."""
    failed, done = runner.steps(*eks.UP, ok=False)
    assert done == []
    assert behind(runner, "-runners-release") == []
    # The health issues and activities that AWS has of the group, after the Job's own report.
    assert re.search(r"a10g: what AWS reports of the node group a10g-nodes-nodes-[0-9a-f]+:\n +EKS: ", failed.output)
    [text] = shut(failed.output).values()
    return text


@pytest.fixture(scope="session")
def unproven(shared: Path) -> BroughtUp:
    """Deploy staging's pool on EKS with an image that cannot be pulled. The deployment stops at the check."""
    return bring_up(eks.project(shared), ("image", "--message", "403 Forbidden"))


@pytest.mark.slow
def test_a_pool_whose_image_cannot_be_pulled_gets_no_scale_set(unproven: BroughtUp) -> None:
    pulling = '[ImagePullBackOff] Back-off pulling image "ghcr.io/example-org/cuda-runner:2.336.0@sha256:'
    [text] = shut(unproven.output).values()
    assert pulling in text
    assert f'{"0" * 64}": 403 Forbidden\n* [DeadlineExceeded] Job was active longer than specified deadline\n' in text
    names = [name for _, name in unproven.done]
    assert "a10g-nodes-nodes" in names
    assert [name for name in names if name.startswith("a10g-runners-")] == []


PLUGIN = "example-ci-plugin-nvidia-device-plugin"
NODES: dict[str, tuple[tuple[str, ...], str]] = {
    "taint": (("edit", "a10g-nodes-nodes", 'taints[0].value="true"'), "1 node(s) had untolerated taint(s)"),
    "label": (
        ("edit", "a10g-nodes-nodes", 'labels["nvidia.com/gpu.present"]=yes'),
        "1 node(s) didn't match Pod's node affinity/selector",
    ),
    "driver": (("edit", "a10g-nodes-nodes", "amiType=AL2023_x86_64_STANDARD"), "1 Insufficient nvidia.com/gpu"),
    "no plugin": (("remove", PLUGIN), "1 Insufficient nvidia.com/gpu"),
    "plugin not ready": (("edit", PLUGIN, "status.numberReady=0"), "1 Insufficient nvidia.com/gpu"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", NODES)
def test_a_pool_whose_check_does_not_fit_its_nodes_gets_no_scale_set(
    shared: Path, tmp_path: Path, unproven: BroughtUp, fault: str
) -> None:
    change, reason = NODES[fault]
    with closing(copied(eks.project(shared), unproven, tmp_path / "a sandbox")) as runner:
        # One runs, so that the autoscaler knows what its nodes are, and starts none in vain.
        runner.run("world", "edit", "a10g-nodes-nodes", "scalingConfig.desiredSize=1")
        runner.run("world", *change)
        text = said_while_shut(runner)
        assert re.search(
            rf"FailedScheduling: 0/1 nodes are available: {re.escape(reason)}\.[^*]*\*[^*]*\* {LATE}", text
        )


@pytest.mark.slow
def test_no_scale_set_is_made_while_spot_nodes_are_sold_out_and_the_next_up_makes_it(
    shared: Path, tmp_path: Path, unproven: BroughtUp
) -> None:
    with closing(copied(eks.project(shared), unproven, tmp_path / "a sandbox")) as runner:
        runner.run("world", "break", "stockout", "--on", "*NodeGroup", "--times", "0")
        text = said_while_shut(runner)
        assert re.search(
            r"the cluster autoscaler gets no node for [\w-]+: UnfulfillableCapacity - [^*]*FailedScheduling: "
            rf"[^*]*\*[^*]*\* {LATE}",
            text,
        )
        runner.run("world", "mend", "--all")
        _, done = runner.steps(*eks.UP)
        assert [name for operation, name in done if operation == "create"][-1] == "a10g-runners-registered"
