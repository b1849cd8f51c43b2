"""Builds in the sandbox's Cloud Build with a step on a GPU machine: the bridge is deployed, and used by five builds."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_ci.machine_records import MachineRecord
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import bring_up, copied, project_of, sandbox_settings
from tests.engine.compute_pool import GPU_CI, environment
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
def runner(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    subnetwork = f"projects/{PROJECT}/regions/us-central1/subnetworks/ci"
    config = {
        "gcp:project": PROJECT,
        "gpu-ci:site": {"subnetworks": {"us-central1": subnetwork}},
        "gpu-ci:pools": {"gpu-tests": POOL},
    }
    project = project_of(shared, "builds", config, sandbox_settings())
    found = copied(project, bring_up(project), tmp_path_factory.mktemp("builds") / "sandbox")
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
    collect = (GPU_CI, "jobs", "collect", "Pulumi.staging.yaml")
    found = runner.run("serve", "--exec", "--", *collect, **environment(runner)).output.splitlines()
    [record] = [MachineRecord.model_validate_json(line) for line in found if line.startswith("{")]
    assert (record.pool, record.zone, record.machine_type) == ("gpu-tests", "us-central1-a", "g2-standard-8")
    assert record.usd
    assert record.job
    assert (record.job.name, record.job.conclusion, record.incomplete) == ("gpu-test", "success", [])


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


def step_process(runner: SandboxRunner) -> int:
    """Return the process of the step that runs on this sandbox, which is not a machine's."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"gpu_ci.gcp.gpu_bridge" in words and b"run" in words and str(runner.folder).encode() in environment:
            return int(folder.name)
    raise AssertionError("no step runs")


def wait_for(what: str, condition: Callable[[], bool], within_sec: float = 120) -> None:
    until = time.monotonic() + within_sec
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.1)


def has_pending_sigterm(process: int) -> bool:
    found = re.findall(r"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return any(int(each, 16) >> (signal.SIGTERM - 1) & 1 for each in found)


def builds_of_triggers(runner: SandboxRunner) -> dict[str, tuple[str, str]]:
    """Return the status of each build that a trigger started, and its trigger's name, by the id of the build."""
    world = World(Workspace(runner.folder).world)
    names = {row.id.rpartition("/")[2]: row.name for row in world.find("gcp:cloudbuild/trigger:Trigger")}
    builds = [json.loads(text) for text in world.settings("cloudBuild:")]
    world.close()
    return {each["id"]: (each["status"], names[each["buildTriggerId"]]) for each in builds if "buildTriggerId" in each}


def test_after_kill_9_of_a_step_in_a_cancelled_build_the_message_of_the_build_starts_the_reaper(
    runner: SandboxRunner,
) -> None:
    server = runner.start("serve")
    file = runner.folder / "serve.env"
    wait_for("the server starts", file.exists)
    lines = [shlex.split(line)[1] for line in file.read_text().splitlines()]
    served = dict(line.split("=", 1) for line in lines)
    before = builds_of_triggers(runner)
    command = [sys.executable, "-m", "tools.build", "--", "sh", "-c", "echo begins; sleep 300"]
    process = subprocess.Popen(
        command,
        cwd=runner.project,
        env={**os.environ, **environment(runner), "PULUMI_SANDBOX_DIR": str(runner.folder), **served},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert any(line == "begins\n" for line in process.stdout)
        step = step_process(runner)
        # A stopped process does not handle the signal of the cancellation, as one that hangs.
        os.kill(step, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        wait_for("the build is cancelled", lambda: has_pending_sigterm(step))
        assert len(machines(runner)) == 1
        os.kill(step, signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 130, output
        wait_for("the reaper deletes the machine", lambda: machines(runner) == [])
        wait_for("the reaper ends", lambda: "WORKING" not in dict(builds_of_triggers(runner).values()))
        after = builds_of_triggers(runner)
        # The server ended the reapers of the other tests' builds with itself.
        assert [after[each] for each in after.keys() - before.keys()] == [("SUCCESS", "gpu-tests-ended-trigger")]
    finally:
        process.kill()
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)
