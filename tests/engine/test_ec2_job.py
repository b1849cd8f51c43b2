"""The gate and jobs on EC2 from their start to their end: the real gate, manager, agent and check, with moto as EC2."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.session import Session

from tests.conftest import ROOT, bring_up, copied, project_of, sandbox_settings
from tests.engine.compute_pool import GPU_CI, UP, environment, manager_files, run_manager
from tests.engine.compute_pool import served as served_by
from tests.engine.test_standby import KINDS
from tests.sandbox_runner import SandboxRunner, read_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def config_of(**changes: Any) -> dict[str, Any]:
    """Return the config of staging with its pool on EC2 and its runner group. `changes` are fields of the pool."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())["config"]
    config["gpu-ci:pools"] = {"a10g-ec2": {**config["gpu-ci:pools"]["a10g-ec2"], **changes}}
    config["gpu-ci:github"] = {"runnerGroup": config["gpu-ci:github"]["runnerGroup"]}
    del config["gpu-ci:clusters"]
    return config


@pytest.fixture(scope="module")
def staging(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    """Yield staging with its pool on EC2 and its runner group, deployed once."""
    project = project_of(shared, "ec2-job", config_of(), sandbox_settings())
    runner = copied(project, bring_up(project), tmp_path_factory.mktemp("ec2") / "a sandbox")
    yield runner
    runner.close()


def make_job(runner: SandboxRunner, script: str, pool: str = "ec2") -> subprocess.Popen[str]:
    """Start `gpu-ci job`, as `make job POOL=ec2` does."""
    return subprocess.Popen(
        [GPU_CI, "job", "--stack", "staging", "--pool", pool, "--run", script],
        cwd=runner.project,
        env=environment(runner),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def served(runner: SandboxRunner) -> dict[str, str]:
    """Return the environment for clients of the server of a job."""
    lines = (runner.folder / "serve.env").read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


def left(runner: SandboxRunner) -> list[object]:
    """Return the instances in the world, their disks, and their processes."""
    rows = [row for row in runner.world() if row["type"].endswith(":Instance")]
    mark = f"{runner.folder}/disks".encode()
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                processes.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return [*rows, *(runner.folder / "disks").glob("*"), *processes]


def objects(runner: SandboxRunner, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Return the keys in the mailbox without the downloads, and the ids of the instances that run."""
    for name, value in served(runner).items():
        monkeypatch.setenv(name, value)
    s3, ec2 = (Session().create_client(each, region_name="us-east-1") for each in ("s3", "ec2"))
    [bucket] = s3.list_buckets()["Buckets"]
    found = s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", [])
    rows = [row for each in ec2.describe_instances()["Reservations"] for row in each["Instances"]]
    running = [row["InstanceId"] for row in rows if row["State"]["Name"] == "running"]
    return [each["Key"] for each in found if "/payloads/" not in each["Key"]], running


@pytest.mark.timeout(600)
def test_a_stopped_instance_starts_for_a_job_with_its_new_user_data_and_another_replaces_it(tmp_path: Path) -> None:
    config = config_of(market="standard", max=1, standby={"stoppedSize": 1})
    runner = SandboxRunner(project_of(tmp_path, "standby", config, sandbox_settings()), tmp_path / "a sandbox")
    runner.run(*UP)
    found, options = manager_files(runner, tmp_path)
    server = runner.start("serve")
    variables = environment(runner) | served_by(runner, server)

    def manager() -> list[tuple[str, str]]:
        done = subprocess.run(
            [*run_manager(options, tmp_path), "--json"], env=variables, cwd=runner.project, capture_output=True,
            text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [(line["event"], line["subject"]) for line in lines if line["event"] in KINDS]

    try:
        stocked = manager()
        name = stocked[0][1]
        assert stocked == [("insert", name), ("stop-machine", name)]
        labels = ",".join(found["pools"][0]["labels"])
        job = runner.json("job", "queue", "--repository", "kernels", "--labels", labels, "--run", "true", "--json")
        worked = manager()
        assert runner.json("job", "show", str(job["id"]), "--json")["conclusion"] == "success"
        own = [event for event, subject in worked if subject == name]
        assert own == ["start-machine", "register", "delete"]
        [disk] = (runner.folder / "disks").iterdir()
        assert {event for event, subject in worked if subject != name} == {"insert", "stop-machine"}, disk
    finally:
        server.terminate()
        server.wait(timeout=60)
        runner.close()


def test_a_template_that_no_machine_could_check_fails_the_deployment(staging: SandboxRunner) -> None:
    staging.run("world", "break", "stockout", "--on", "a10g-ec2-*", "--times", "0")
    again = ("up", "--stack", "staging", "--yes", "--skip-preview", "--replace", "**SmokeGate**")
    try:
        failed = staging.run(*again, ok=False)
    finally:
        staging.run("world", "mend", "--all")
    assert failed.has("no zone had capacity for the check machine: us-east-1a, us-east-1b", "smoke.onNoCapacity")
    assert left(staging) == []


def test_a_job_runs_on_a_checked_machine_in_the_next_zone_and_nothing_is_left(
    staging: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging.run("world", "break", "stockout", "--zone", "us-east-1a", "--times", "0")
    try:
        process = make_job(staging, "sleep 5; echo planted-$((40 + 7))")
        begun = read_until(process, "runs       ")
        keys, running = objects(staging, monkeypatch)
        ended = read_until(process, "deleted    ")
        # The record is deleted by the next pass after the machine is gone.
        until = time.monotonic() + 60
        while (rest := objects(staging, monkeypatch)) != ([], []) and process.poll() is None:
            assert time.monotonic() < until, rest
        output = begun + ended + process.communicate(timeout=240)[0]
    finally:
        staging.run("world", "mend", "--all")
    assert process.returncode == 0, output
    names = {key.rpartition("/")[2].partition("-")[0] for key in keys}
    assert (len(running), names - {"end"}) == (1, {"boot.json", "key", "verdict", "registration", "a10g"})
    assert rest == ([], [])
    zones = re.findall(r" requested .* in (\S+): ", output)
    assert zones == ["us-east-1b"]
    told = ["queued", "GPU        pass", "the runner registers", "runs ", "deleted", "cost", "| planted-47", "result "]
    places = [output.find(each) for each in told]
    assert -1 not in places, output
    assert places == sorted(places), output
    assert left(staging) == []


def test_the_job_of_a_machine_that_is_terminated_from_outside_fails_and_nothing_is_left(
    staging: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = make_job(staging, "sleep 300")
    begun = read_until(process, "runs       ")
    _, running = objects(staging, monkeypatch)
    Session().create_client("ec2", region_name="us-east-1").terminate_instances(InstanceIds=running)
    output = begun + process.communicate(timeout=240)[0]
    assert process.returncode == 1, output
    assert re.search(r" ended +example-org/kernels#\d+: no longer queued or running", output), output
    assert re.search(r" deleted +machine \S+: stopped: EC2 terminated the instance: Client\.User", output), output
    assert left(staging) == []
