"""A pool with a machine on standby, from `up` to `destroy`: the real manager and agent in the sandbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.engine.compute_pool import UP, environment, manager_files, run_manager, served, staging_with_l4
from tests.sandbox_runner import SandboxRunner

KINDS = ("insert", "stop-machine", "start-machine", "register", "delete")
pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield staging with only its L4 pool, which has one machine, on standby. The pool cannot have a second machine."""
    runner = staging_with_l4(tmp_path, max=1, standby={"stoppedSize": 1})
    runner.run(*UP)
    yield runner
    runner.close()


def machines(runner: SandboxRunner) -> list[tuple[str, str]]:
    """Return names and states of the machines in the sandbox."""
    world = World(Workspace(runner.folder).world)
    try:
        return [(record.outputs["name"], record.outputs["status"]) for record in world.find(INSTANCE)]
    finally:
        world.close()


def events(output: str, *kinds: str) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [(line["event"], line["subject"]) for line in lines if line["event"] in kinds]


@pytest.mark.timeout(600)
def test_a_job_starts_the_standby_machine_another_replaces_it_and_destroy_deletes_all(
    staging: SandboxRunner, tmp_path: Path
) -> None:
    config, options = manager_files(staging, tmp_path)
    assert config["pools"][0]["standby"] == 1
    server = staging.start("serve")
    variables = environment(staging) | served(staging, server)
    command = [*run_manager(options, tmp_path), "--json"]

    def manager() -> str:
        done = subprocess.run(
            command, env=variables, cwd=staging.project, capture_output=True, text=True, timeout=240, check=True
        )
        return done.stdout

    try:
        stocked = manager()
        [(name, status)] = machines(staging)
        assert status == "TERMINATED"
        assert events(stocked, *KINDS) == [("insert", name), ("stop-machine", name)]
        labels = ",".join(config["pools"][0]["labels"])
        job = staging.json(
            "job", "queue", "--repository", "kernels", "--labels", labels, "--run", "echo $((40 + 2))", "--json"
        )
        worked = manager()
        assert staging.json("job", "show", str(job["id"]), "--json")["conclusion"] == "success"
        assert [each for each in events(worked, *KINDS) if each[1] == name] == [
            ("start-machine", name), ("register", name), ("delete", name)
        ]  # fmt: skip
        [(next_name, status)] = machines(staging)
        assert (status, next_name != name) == ("TERMINATED", True)
    finally:
        server.terminate()
        server.wait(timeout=60)
    staging.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
    assert machines(staging) == []
