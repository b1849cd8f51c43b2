"""`gpu-ci doctor` against the sandbox: before and after the first `up`, for a manager, and after a destroy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.cli.doctor import deployer
from gpu_ci.cli.stack_files import read
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE, SERIAL
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.engine.compute_pool import GPU_CI, UP, manager_files, staging_with_l4
from tests.sandbox_runner import ANSI, SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    runner = staging_with_l4(tmp_path_factory.mktemp("checklist"))
    yield runner
    runner.close()


def doctor(runner: SandboxRunner, *words: str) -> dict[str, tuple[str, str]]:
    """Return the answer of `gpu-ci doctor` for each step: its status and its sentence."""
    finished = runner.start("serve", "--exec", "--", GPU_CI, "doctor", *words, "--json")
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


def passed(answers: dict[str, tuple[str, str]]) -> dict[str, str]:
    assert {name: got for name, (status, got) in answers.items() if status != "pass"} == {}
    return {name: got for name, (_, got) in answers.items()}


STACK = ("Pulumi.staging.yaml", "--only", "google")


def test_a_google_project_and_a_manager_before_and_after_the_first_up_and_after_the_destroy(
    staging: SandboxRunner, tmp_path: Path
) -> None:
    got = passed(doctor(staging, *STACK))
    needed = deployer.permissions(read(staging.project / "Pulumi.staging.yaml"))
    assert got["google/permissions"] == f"all {len(needed)} are granted on the project"
    assert got["google/machines"] == "all 3 are offered"
    assert got["google/secrets"] == "all 3 have an enabled version; the value was not read"
    up, serial = watched_up(staging)
    assert "pass: " in up
    assert any(line.startswith("GPU-AGENT") for line in serial.splitlines())
    assert passed(doctor(staging, *STACK))["google/leftovers"] == "no VM of a smoke check exists"
    _, [_, config, *options] = manager_files(staging, tmp_path)
    answers = passed(doctor(staging, config, *options))
    assert answers["manager/service accounts"] == "machines can be started as each pool's account"
    assert [row["id"] for row in staging.world() if row["type"].endswith(":Instance")] == []
    staging.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
    assert passed(doctor(staging, *STACK))["google/leftovers"] == "no VM of a smoke check exists"
    assert [row["id"] for row in staging.world() if row["type"].startswith("gcp:compute/")] == []
