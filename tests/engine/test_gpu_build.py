"""Builds in the sandbox's Cloud Build with a step on a GPU machine: the bridge is deployed, and used by four builds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out
from tests.engine.compute_pool import UP, environment
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = "example-ci-staging"
POOL = {
    "kind": "cloud-build-gpu",
    "machineType": "g2-standard-8",
    "zones": ["us-central1-a", "us-central1-b"],
    "market": "spot",
    "max": 2,
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    folder = tmp_path_factory.mktemp("builds")
    found = SandboxRunner(project=folder / "project", folder=folder / "sandbox")
    found.project.mkdir()
    lay_out(found.project)
    (found.project / "sandbox.yaml").write_text((ROOT / "sandbox.yaml").read_text())
    subnetwork = f"projects/{PROJECT}/regions/us-central1/subnetworks/ci"
    config = {
        "gcp:project": PROJECT,
        "gpu-ci:site": {"subnetworks": {"us-central1": subnetwork}},
        "gpu-ci:pools": {"gpu-tests": POOL},
    }
    (found.project / "Pulumi.staging.yaml").write_text(yaml.safe_dump({"config": config}, sort_keys=False))
    found.run("stack", "init", "staging")
    found.run(*UP)
    yield found
    found.close()


def start(runner: SandboxRunner, *words: str) -> subprocess.Popen[str]:
    return runner.start("serve", "--exec", "--", sys.executable, "-m", "tools.build", *words, **environment(runner))


def machines(runner: SandboxRunner) -> list[str]:
    world = World(Workspace(runner.folder).world)
    found = [row.name for row in world.find("gcp:compute/instance:Instance")]
    world.close()
    return found


def test_a_build_runs_the_smoke_check_on_a_machine_and_prints_its_output(runner: SandboxRunner) -> None:
    output, _ = (process := start(runner)).communicate(timeout=240)
    assert process.returncode == 0, output
    assert "Starting Step #2 - gpu-test\n" in output
    assert "passed its check" in output
    assert "are right on the CPU" in output.partition("passed its check")[2]
    assert "\nSUCCESS\n" in output
    assert "\nThe build ended with status SUCCESS, and no machine of the build is left.\n" in output
    assert machines(runner) == []


def test_the_exit_code_of_the_command_is_that_of_the_step(runner: SandboxRunner) -> None:
    output, _ = (process := start(runner, "--", "sh", "-c", "echo out; exit 7")).communicate(timeout=240)
    assert process.returncode == 1, output
    assert "\nout\n" in output
    assert "\nFAILURE: step gpu-test failed with code 7\n" in output
    assert machines(runner) == []


def test_a_cancelled_build_deletes_its_machine(runner: SandboxRunner) -> None:
    output, _ = (process := start(runner, "--example", "cancelled")).communicate(timeout=240)
    assert process.returncode == 130, output
    assert "exit code: 210" in output
    assert "\nThe build ended with status CANCELLED, and no machine of the build is left.\n" in output
    assert machines(runner) == []


def test_a_preempted_machine_ends_the_step_with_its_own_code(runner: SandboxRunner) -> None:
    output, _ = (process := start(runner, "--example", "preempted")).communicate(timeout=240)
    assert process.returncode == 1, output
    assert "Google preempted the machine" in output
    assert "\nFAILURE: step gpu-test failed with code 203\n" in output
    assert machines(runner) == []
