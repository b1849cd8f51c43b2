"""Jobs from the queue to their end: the real manager, agent and check, at the sandbox's GitHub and Compute Engine."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow]

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
MAX = 2


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    """Staging with its L4 pool of two machines, a ladder, and what that needs on GitHub; brought up once."""
    folder = tmp_path_factory.mktemp("job")
    runner = SandboxRunner(project=folder / "the project", folder=folder / "a sandbox")
    runner.project.mkdir()
    lay_out(runner.project)
    (runner.project / "sandbox.yaml").write_text((ROOT / "sandbox.yaml").read_text())
    stack = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    config = stack["config"]
    config["gpu-ci:pools"] = {"l4": {**config["gpu-ci:pools"]["l4"], "max": MAX, "ladder": [{"region": "us-east1"}]}}
    config["gpu-ci:site"]["networks"] = {"us-east1": {"ipRange": "10.10.0.0/20"}}
    config["gpu-ci:github"] = {"runnerGroup": config["gpu-ci:github"]["runnerGroup"]}
    del config["gpu-ci:clusters"]
    (runner.project / "Pulumi.staging.yaml").write_text(yaml.safe_dump(stack, sort_keys=False))
    runner.run(*UP)
    yield runner
    runner.close()


def environment(runner: SandboxRunner) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    return kept | {"PULUMI_SANDBOX_DIR": str(runner.folder), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def make_job(runner: SandboxRunner, *scripts: str) -> subprocess.Popen[str]:
    """What `make job` runs."""
    steps = [word for script in scripts for word in ("--run", script)]
    return subprocess.Popen(
        [sys.executable, "-m", "tools.job", *steps],
        cwd=runner.project,
        env=environment(runner),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def machines(runner: SandboxRunner) -> list[dict[str, Any]]:
    return [row for row in runner.world() if row["type"].endswith(":Instance")]


def test_a_queued_job_gets_a_proven_machine_runs_there_and_leaves_none(staging: SandboxRunner) -> None:
    process = make_job(staging, "echo planted-$((40 + 7))", "test -d .")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    told = ["queued", "asked", "torch checks the GPU", "GPU        pass", "the runner registers", "deleted", "cost"]
    places = [output.find(each) for each in told]
    assert -1 not in places, output
    assert places == sorted(places), output
    assert "planted-47" in output
    assert machines(staging) == []


def test_a_job_that_fails_is_a_failure_and_its_machine_goes_too(staging: SandboxRunner) -> None:
    process = make_job(staging, "exit 3")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 1, output
    assert machines(staging) == []


def test_a_job_gets_a_machine_in_the_next_region_of_the_ladder(staging: SandboxRunner) -> None:
    for zone in ("us-central1-a", "us-central1-b", "us-central1-c"):
        staging.run("world", "break", "stockout", "--zone", zone, "--times", "0")
    try:
        output, _ = (process := make_job(staging, "true")).communicate(timeout=240)
    finally:
        staging.run("world", "mend", "--all")
    assert process.returncode == 0, output
    asked = [line.rpartition(" in ")[2].partition(":")[0] for line in output.splitlines() if " asked " in line]
    assert asked == ["us-central1-a", "us-central1-b", "us-central1-c", "us-east1-b"]
    assert machines(staging) == []


@pytest.mark.parametrize("moment", ["torch checks the GPU", "runs       "])
def test_a_job_that_is_cancelled_ends_and_its_machine_goes(staging: SandboxRunner, moment: str) -> None:
    """Before it has a runner, and while it runs."""
    lines: list[str] = []
    number, cancelled = "", False
    with make_job(staging, "echo begun; sleep 300") as process:
        for line in process.stdout or ():
            lines.append(line)
            number = number or next((word for word in line.split() if word.isdecimal() and "job" in line), "")
            if moment in line and not cancelled:
                staging.run("job", "cancel", number)
                cancelled = True
    assert cancelled, "".join(lines)
    assert process.returncode == 1, "".join(lines)
    assert staging.json("job", "show", number, "--json")["conclusion"] == "cancelled"
    assert machines(staging) == []


@pytest.mark.timeout(900)
def test_a_manager_that_is_killed_thirty_times_still_brings_every_job_to_its_end(
    staging: SandboxRunner, tmp_path: Path
) -> None:
    """kill -9 of the real process at moments by chance. Five jobs, two machines at most, none left."""
    config = staging.json("stack", "output", "manager", "--json", "--stack", "staging")
    world = World(Workspace(staging.folder).world)
    (tmp_path / "key.pem").write_text(private_key(world, str(config["github"]["appId"])))
    world.close()
    (tmp_path / "manager.json").write_text(json.dumps(config))
    server = staging.start("serve")
    while not (staging.folder / "serve.env").exists():
        assert server.poll() is None
        time.sleep(0.1)
    lines = (staging.folder / "serve.env").read_text().splitlines()
    served = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    command = [
        str(Path(sys.executable).parent / "gpu-ci"), "manager", "run", "--until-idle", "--interval-sec", "0.5",
        "--config", str(tmp_path / "manager.json"), "--state", str(tmp_path / "state.sqlite"),
        "--app-key", str(tmp_path / "key.pem"),
    ]  # fmt: skip
    labels = ",".join(config["pools"][0]["labels"])
    jobs = [
        staging.json("job", "queue", "--repository", "kernels", "--labels", labels, "--run", f"echo {n}", "--json")[
            "id"
        ]
        for n in range(5)
    ]
    chance, most, kills = random.Random(7), 0, 0
    try:
        while True:
            process = subprocess.Popen(command, env=environment(staging) | served, cwd=staging.project)
            try:
                code = process.wait(timeout=chance.uniform(1.0, 6.0) if kills < 30 else 240)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            else:
                assert code == 0
                if kills >= 30:
                    break
            alive = [each for each in machines(staging) if each.get("status") not in ("TERMINATED", "STOPPING")]
            most = max(most, len(alive))
        conclusions = [staging.json("job", "show", str(job), "--json")["conclusion"] for job in jobs]
        assert conclusions == ["success"] * 5
        assert machines(staging) == []
        assert most <= MAX
    finally:
        server.terminate()
        server.wait(timeout=60)
