"""The checklist of docs/start/first-real-run.md against the sandbox: each step has an answer, or a reason for none."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.cli.stack_files import read
from gpu_ci.cli.verify import deployer, eks, google, gpu
from gpu_manager.verify import steps as manager
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE, SERIAL
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.engine import eks as fakes
from tests.engine.compute_pool import GPU_CI, UP, manager_files, staging_with_l4
from tests.sandbox_runner import ANSI, SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

# Steps that a person takes, and the test in which the sandbox answers them; the others are answered in this file.
ELSEWHERE = {
    "google": {
        "stop": "tests/agent/test_supervisor.py: a machine that is stopped says so, and in which step; "
        "tests/sandbox/providers/gcp/compute/test_stop_and_start.py",
    },
    "manager": {
        "first job": "tests/engine/test_job.py: a queued job gets a machine",
        "cancel": "tests/engine/test_job.py: a job that is cancelled ends, and its machine goes",
        "kill": "tests/engine/test_job.py: a manager that is killed thirty times",
        "preemption": "tests/manager/test_histories.py, and `pulumi-sandbox world break preempt`",
        "webhook": "tests/manager/webhook/test_run.py",
    },
    "eks": {
        "first up": "tests/engine/test_eks_gates.py",
        "max while a job runs": "tests/engine/test_eks_life.py: another maximum leaves busy nodes and their jobs alone",
    },
}
# Steps without an answer of the sandbox.
UNANSWERED = {
    "eks": {
        **dict.fromkeys(
            ("identity", "cluster", "network plugin", "quotas", "roles", "subnets", "node groups"),
            "the sandbox serves the part of EKS, STS and Auto Scaling that the plugin calls, and not these calls; "
            "tests/gpu_ci/cli/verify/test_eks.py holds them to botocore's model",
        ),
        **dict.fromkeys(
            ("autoscaler", "other nodes", "device plugins", "listeners"), "the sandbox has no Kubernetes API server"
        ),
        "first job": "a runner of the sandbox's scale sets runs no program",
    },
    "gpu": {
        "cold start": "needs root and the page cache of the machine",
        "burn": "its load is the GPU's; tests/smoke has the profile with a fake clock",
        "repeats": "speeds of the fake are constants",
        "slow on purpose": "clocks of the fake cannot be set by nvidia-smi",
        "in a pod": "answered by each check on EKS: tests/engine/test_eks_gates.py",
        "pytest": "tests/pytest_gpu_ci has the plugin with a fake torch",
    },
}


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    runner = staging_with_l4(tmp_path_factory.mktemp("checklist"))
    yield runner
    runner.close()


def verify(runner: SandboxRunner, *words: str) -> dict[str, tuple[str, str]]:
    """Return the answer of `gpu-ci verify` for each step: its status and its sentence."""
    finished = runner.start("serve", "--exec", "--", GPU_CI, "verify", *words, "--json")
    output, _ = finished.communicate(timeout=240)
    report, _ = json.JSONDecoder().raw_decode(output[output.index("{\n") :])
    return {step["name"]: (step["status"], step["got"]) for step in report["steps"]}


def watched_up(runner: SandboxRunner) -> tuple[str, str]:
    """Return the output of the first `up`, and the serial output of the check machine while it ran."""
    process, serial = runner.start(*UP), ""
    world = World(Workspace(runner.folder).world)
    try:
        while process.poll() is None:
            serial = max([serial, *(str(row.outputs.get(SERIAL, "")) for row in world.find(INSTANCE))], key=len)
            time.sleep(0.2)
    finally:
        world.close()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return ANSI.sub("", output), serial


def names(steps: Any, *, by_hand: bool) -> set[str]:
    return {step.name for step in steps if (step.ask is None) is by_hand}


def passed(answers: dict[str, tuple[str, str]]) -> dict[str, str]:
    assert {name: got for name, (status, got) in answers.items() if status != "pass"} == {}
    return {name: got for name, (_, got) in answers.items()}


def test_a_google_project_and_a_manager_before_and_after_the_first_up_and_after_the_destroy(
    staging: SandboxRunner, tmp_path: Path
) -> None:
    """The steps run in order: verify, first up, serial output, the manager's steps, destroy and verify."""
    before = verify(staging, "google", "Pulumi.staging.yaml")
    assert before.keys() == names(google.STEPS, by_hand=False)
    got = passed(before)
    needed = deployer.permissions(read(staging.project / "Pulumi.staging.yaml"))
    assert got["permissions"] == f"all {len(needed)} are granted on the project"
    assert got["machines"] == "all 3 are offered"
    assert got["secrets"] == "all 3 have an enabled version; the value was not read"
    up, serial = watched_up(staging)
    assert "pass: " in up
    assert any(line.startswith("GPU-AGENT") for line in serial.splitlines())
    assert passed(verify(staging, "google", "Pulumi.staging.yaml"))["leftovers"] == "no VM of a smoke check exists"
    the_manager_answers(staging, tmp_path)
    staging.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
    assert passed(verify(staging, "google", "Pulumi.staging.yaml"))["leftovers"] == "no VM of a smoke check exists"
    assert [row["id"] for row in staging.world() if row["type"].startswith("gcp:compute/")] == []


def test_a_forbidden_request_to_google_fails_its_step(staging: SandboxRunner) -> None:
    file = staging.project / "sandbox.yaml"
    text = file.read_text()
    restrictions = {
        "disabledServices": ["secretmanager.googleapis.com"],
        "organizationPolicies": {
            "compute.disableGuestAttributesAccess": True,
            "gcp.resourceLocations": ["in:europe-locations"],
        },
    }
    file.write_text(text + yaml.safe_dump({"restrictions": {"gcp": restrictions}}))
    try:
        answers = verify(staging, "google", "Pulumi.staging.yaml")
    finally:
        file.write_text(text)
    failed = {name: got for name, (status, got) in answers.items() if status == "fail"}
    assert failed.keys() == {"apis", "policies"}
    assert failed["apis"] == "not enabled: secretmanager.googleapis.com"
    assert "gcp.resourceLocations refuses us-central1-a" in failed["policies"]


def the_manager_answers(staging: SandboxRunner, tmp_path: Path) -> None:
    _, options = manager_files(staging, tmp_path)
    answers = verify(staging, "manager", *options)
    assert answers.keys() == names(manager.STEPS, by_hand=False)
    assert passed(answers)["service accounts"] == "machines can be started as each pool's account"
    left = [row["id"] for row in staging.world() if row["type"].endswith(":Instance")]
    assert left == []  # the step `nothing is left`


def test_a_gpu_machine(tmp_path: Path) -> None:
    """Runs the real gpu-smoke with a fake torch and fake files of the driver."""
    (program := tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'Attached GPUs : 1'\n")
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(fakes.FAKES),
        "FAKE_TORCH": json.dumps({"gpus": [{"name": "NVIDIA L4", "cc": "8.9"}]}),
        "GPU_SMOKE_ROOT": str(fakes.FAKES / "root"),
    }
    command = [GPU_CI, "verify", "gpu", "--json", "--output", str(tmp_path / "answers.md")]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False).stdout
    answers = {step["name"]: (step["status"], step["got"]) for step in json.loads(output)["steps"]}
    assert answers.keys() == names(gpu.STEPS, by_hand=False)
    assert passed(answers)["standard"].startswith("pass in ")


def test_every_step_of_every_checklist_is_answered_here_or_says_why_not() -> None:
    here = {
        "google": {"first up", "serial output", "destroy"},
        "manager": {"nothing is left"},
        "eks": set[str](),
        "gpu": set[str](),
    }
    checklists = {"google": google.STEPS, "manager": manager.STEPS, "eks": eks.STEPS, "gpu": gpu.STEPS}
    asked = {"google", "manager", "gpu"}
    for name, steps in checklists.items():
        answered = names(steps, by_hand=False) if name in asked else set()
        told = here[name] | answered | ELSEWHERE.get(name, {}).keys() | UNANSWERED.get(name, {}).keys()
        assert told == {step.name for step in steps}, name
