"""Tests of faults of a check that no pool allows, on nodes of sandbox.yaml and on GKE."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.engine import eks
from tests.engine.test_eks_gates import FAILED, LATE, behind, exit_codes, shut
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow]

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
# The error of each check. Exit code 3 is a fake's: the check measures no speed.
CAUSES = {
    # On a cluster, the first line of these three is an event Pulumi omits (docs/operate/kubernetes-check-fails.md).
    "untolerated": rf"0/2 nodes are available: 2 node\(s\) had untolerated taint\(s\)\.[^*]*\*[^*]*\* {LATE}",
    "greedy": rf"0/2 nodes are available: 1 Insufficient nvidia\.com/gpu, 1 node\(s\) didn't [^*]*\*[^*]*\* {LATE}",
    "over-quota": r"exceeded quota: gpus, requested: requests\.nvidia\.com/gpu=2, used: requests\.nvidia\.com/gpu=0"
    rf", limited: requests\.nvidia\.com/gpu=1[^*]*\*[^*]*\* {LATE}",
    "endless": rf"^error: 2 errors occurred:[^*]*\*[^*]*\* {LATE}",
    "hangs": r"\[Error\] l4: GPU 0: no answer within 1 s while multiplying float32 matrices\n"
    rf"hint: the GPU does not answer and needs at least a reset: replace the machine\n[^*]*\* {FAILED}",
    "slow": rf"\[Error\] l4: 11 TFLOP/s, expected 40 or more\n[^*]*\* {FAILED}",
}


def checked(runner: SandboxRunner) -> dict[str, str]:
    """Deploy all checks, and return the error of each failed check."""
    hang = [{"kind": "hang"}]
    for job in ("hangs-job", "endless-job"):
        runner.run("world", "break", "guest", "--on", job, "--set", f"FAKE_TORCH={eks.torch(faults=hang)}")
    return shut(runner.run(*UP, "--continue-on-error", "--config", "gates:right-only=false", ok=False).output)


def wrong(said: dict[str, str]) -> dict[str, str]:
    return {gate: text for gate, text in said.items() if not re.search(CAUSES.get(gate, "^$"), text)}


def test_a_check_fails_for_a_changed_job_and_for_more_gpus_than_exist(tmp_path: Path) -> None:
    with closing(eks.program("gates", tmp_path)) as runner:
        said = checked(runner)
        assert wrong(said) == {}
        assert sorted(said) == sorted(CAUSES)
        assert exit_codes(runner) == {"right": 0, "hangs": 4, "slow": 3}
        assert behind(runner, "-behind") == ["right-behind"]


def test_the_same_faults_fail_a_check_on_gke_but_gke_adds_a_missing_toleration(tmp_path: Path) -> None:
    with closing(eks.program("gates", tmp_path)) as runner:
        settings = runner.project / "sandbox.yaml"
        found = yaml.safe_load(settings.read_text())
        # The nodes are those of the program's node pools, on a cluster that exists already.
        del found["values"]
        found["exists"] = {"gcp": ["projects/*/locations/us-central1/clusters/ci"]}
        settings.write_text(yaml.safe_dump(found))
        stack = runner.project / "Pulumi.dev.yaml"
        config = {"gcp:project": "example-project", "gcp:region": "us-central1", "gates:gke": "true"}
        stack.write_text(yaml.safe_dump(yaml.safe_load(stack.read_text()) | {"config": config}))
        runner.run(*UP, "--config", "gates:right-only=true")
        # Each pool has its only node, so that no pod waits for the autoscaler.
        for pool in ("l4-nodes", "l4-pair-nodes"):
            runner.run("world", "edit", pool, "nodeCount=1")
        said = checked(runner)
        assert wrong(said) == {}
        assert sorted(said) == sorted(CAUSES.keys() - {"untolerated"})
        assert exit_codes(runner) == {"right": 0, "untolerated": 0, "hangs": 4, "slow": 3}
        assert behind(runner, "-behind") == ["right-behind", "untolerated-behind"]
