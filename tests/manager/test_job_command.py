"""Tests of `gpu-ci job`: requests that it refuses before it queues a job."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.output import InputError
from gpu_manager.cli import job_command as job
from pulumi_sandbox.cli.serve import serve_lock_held
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.actions.state import JOB
from pulumi_sandbox.providers.github.repositories import number
from pulumi_sandbox.workspace import ENDPOINT, Workspace
from pulumi_sandbox.world.store import Record, World


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    (tmp_path / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path / "sandbox"))
    monkeypatch.delenv(ENDPOINT, raising=False)
    return Workspace.find()


@pytest.fixture
def world(workspace: Workspace) -> Iterator[World]:
    """Yield an emulated GitHub with a runner group of one repository."""
    made = World(workspace.world)
    outputs = {
        "name": "gpu",
        "visibility": "selected",
        "selectedRepositoryIds": [number("acme/kernels")],
        "runnersUrl": "https://api.github.com/orgs/acme/actions/runner-groups/2/runners",
    }
    made.insert(Record(types.RUNNER_GROUP, "2", "gpu", "", outputs, outputs, "stack"))
    repository = {"fullName": "acme/kernels", "repoId": number("acme/kernels"), "name": "kernels"}
    made.insert(Record(types.REPOSITORY, "kernels", "kernels", "", repository, repository, "stack"))
    yield made
    made.close()


def test_a_second_one_is_refused_with_the_way_to_queue_another_job(workspace: Workspace) -> None:
    with serve_lock_held(workspace):
        answer = CliRunner().invoke(gpu_ci, ["job"])
    assert answer.exit_code == 2
    lines = [re.sub("/.*/", "", line.removeprefix("Error: ")) for line in answer.output.splitlines()]
    queue = "pulumi-sandbox job queue --repository REPOSITORY --labels A,B --run ls"
    assert lines == [
        "gpu-ci job: another process serves this sandbox",
        f"  got: process {os.getpid()}",
        "  expected: one `gpu-ci job` at a time",
        f"  hint: queue another job for the manager of the running one: {queue}",
    ]


@pytest.mark.parametrize("name", ["nosuch", "acme/nosuch"])
def test_a_repository_outside_the_runner_group_is_refused_with_those_in_it(world: World, name: str) -> None:
    allowed = job.repositories_of(world, "acme", "gpu")
    with pytest.raises(InputError) as caught:
        job.chosen_repository(name, allowed, "gpu")
    assert caught.value.problems == [
        {
            "text": "the repository may not use the runner group gpu, so its job would wait forever",
            "got": name,
            "expected": "one of kernels",
            "hint": "gpu-ci:github.runnerGroup.repositories names them",
        }
    ]


def test_a_job_without_a_repository_is_in_the_first_that_can_use_the_pool(world: World) -> None:
    allowed = job.repositories_of(world, "acme", "gpu")
    found = [job.chosen_repository(name, allowed, "gpu") for name in ("", "kernels", "acme/kernels")]
    assert found == ["kernels", "kernels", "acme/kernels"]
    assert job.repositories_of(world, "acme", "of all") == []
    with pytest.raises(InputError, match="--repository: is missing"):
        job.chosen_repository("", [], "of all")


@pytest.mark.parametrize(("folder", "path", "expected"), [
    (".", "", ".venv/bin/gpu-ci"), (".", ".venv/bin", "gpu-ci"), ("other", "", "/.venv/bin/gpu-ci")
])  # fmt: skip
def test_a_hint_has_a_command_that_the_user_can_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, path: str, expected: str
) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / ".venv/bin/gpu-ci").touch(mode=0o755)
    monkeypatch.setattr(job, "BIN", tmp_path / ".venv/bin")
    monkeypatch.setenv("PATH", str(tmp_path / path))
    monkeypatch.chdir(tmp_path / folder)
    assert job.shown("gpu-ci").removeprefix(str(tmp_path)) == expected


def test_each_machine_costs_what_its_rung_does_and_a_minute_at_least(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rungs = [
        {"zone": "us-central1-a", "machineType": "g2-standard-8", "market": "spot", "usdPerHour": 0.36},
        {"zone": "us-east1-b", "machineType": "g2-standard-8", "market": "standard", "usdPerHour": 0.9},
        {"zone": "us-east1-c", "machineType": "g2-standard-8", "market": "standard", "usdPerHour": None},
    ]
    now = [0.0]
    monkeypatch.setattr(job.time, "monotonic", lambda: now[0])
    machines = job.Machines(world, job.Terminal(), [{"rungs": rungs[1:]}, {"rungs": rungs[:1]}])
    for name, rung in zip(("l4-a", "l4-b", "l4-c"), rungs, strict=True):
        detail = f"g2-standard-8 {rung['market']} in {rung['zone']}"
        machines.handle({"event": "insert", "subject": name, "detail": detail})
    for seconds, name in ((30, "l4-a"), (400, "l4-b"), (500, "l4-c")):
        now[0] = seconds
        machines.handle({"event": "delete", "subject": name, "detail": "job-done"})
    capsys.readouterr()
    machines.print_cost()
    assert [line.partition("cost")[2].strip() for line in capsys.readouterr().out.splitlines()] == [
        "30 s of g2-standard-8 spot in us-central1-a at 0.36 USD/h, billed as 60 s: 0.0060 USD",
        "400 s of g2-standard-8 standard in us-east1-b at 0.90 USD/h: 0.1000 USD",
        "500 s of g2-standard-8 standard in us-east1-c, whose price is unknown",
    ]


def test_a_preempted_machine_is_named_and_costs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    machines = job.Machines(world, job.Terminal(), [])
    machines.handle({"event": "insert", "subject": "l4-a", "detail": "g2-standard-8 spot in us-central1-a"})
    machines.handle({"event": "preempted", "subject": "l4-a", "detail": ""})
    machines.print_cost()
    printed = [" ".join(line.split()[2:]) for line in capsys.readouterr().out.splitlines()]
    assert printed[1:] == [
        "preempted machine l4-a: the cloud took it back",
        "cost 0 s of g2-standard-8 spot in us-central1-a, whose price is unknown",
    ]


# A manager that has one machine from its insert to its delete, and does not end by itself.
MANAGER = """#!/bin/sh
trap 'echo end >&2; exit 0' TERM
row() { printf '{"event": "%s", "subject": "l4-a", "detail": "x"}\\n' $1; }
row insert; sleep 0.5; row delete
while :; do sleep 0.1; done
"""


def attempt(number: int, status: str, run: int = 7) -> dict[str, Any]:
    return {"id": number, "status": status, "runId": run, "position": 0}


def test_a_job_ends_with_its_newest_attempt(world: World) -> None:
    """A preempted job is cancelled, and the manager repeats its run."""
    for each, status, run in ((50001, "completed", 7), (50002, "queued", 7), (50003, "completed", 8)):
        world.insert(Record(JOB, str(each), "test", "", {}, attempt(each, status, run), "api"))
    found = [job.newest_attempt(world, each) for each in (50001, 50003)]
    assert [(newest["id"], newest["status"]) for newest in found] == [(50002, "queued"), (50003, "completed")]


@pytest.fixture
def managed(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that follows a job with a status."""
    (tmp_path / "gpu-ci").write_text(MANAGER)
    (tmp_path / "gpu-ci").chmod(0o755)
    monkeypatch.setattr(job, "BIN", tmp_path)
    monkeypatch.setattr(job, "_LIMIT_SEC", 3)
    monkeypatch.setattr(job, "_IDLE_SEC", 1)

    def follow(status: str) -> None:
        world.insert(Record(JOB, "50001", "test", "", {}, attempt(50001, status), "api"))
        terminal = job.Terminal()
        job.run_manager(tmp_path, world, terminal, job.Machines(world, terminal, []), 50001)

    return follow


def test_the_end_of_the_job_and_its_machines_ends_a_manager_that_another_job_keeps(
    managed: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    managed("completed")
    found = capfd.readouterr()
    assert found.err == "end\n"
    assert "machine l4-a: x" in found.out
    assert "stopped" not in found.out


def test_a_job_that_has_ended_is_no_failure_where_another_one_still_has_a_machine(
    world: World, managed: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    world.insert(Record(INSTANCE, "projects/p/zones/z/instances/l4-a", "l4-a", "", {}, {"name": "l4-a"}, "api"))
    managed("completed")
    found = capfd.readouterr()
    assert "stopped    the manager, which has machines for other jobs after 3 s" in found.out
    assert found.err == "end\n"


def test_a_job_that_does_not_end_is_given_up(managed: Callable[[str], None], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="job 50001 has not ended within 3 s"):
        managed("queued")
    assert capfd.readouterr().err == "end\n"


def test_the_older_jobs_of_an_example_are_queued_first_and_cancelled_in_the_end(
    managed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, ...]] = []

    def sandbox(*words: str, json_out: bool = True) -> dict[str, Any]:
        asked.append(words)
        number = 50000 + sum(each[1] == "queue" for each in asked)
        if words[1] == "queue":
            world.insert(Record(JOB, str(number), "test", "", {}, attempt(number, "completed", number), "api"))
        return {"id": number, "name": "", "labels": [], "html_url": "", "steps": [], "conclusion": "success"}

    pool: dict[str, Any] = {"name": "l4", "runnerGroup": "gpu", "labels": ["gpu"], "rungs": []}
    monkeypatch.setattr(job, "configuration", lambda *_: {"github": {"appId": 1, "owner": "acme"}, "pools": [pool]})
    monkeypatch.setattr(job, "sandbox", sandbox)
    with pytest.raises(InputError, match=r"has no priorities\n  got: l4"):
        job.run_job("staging", "", "", job.EXAMPLES["priority"], job.Terminal())
    pool["priorities"] = {"order": ["push"]}
    assert job.run_job("staging", "", "", job.EXAMPLES["priority"], job.Terminal()) == 0
    assert [words[words.index("--event") + 1] for words in asked if words[1] == "queue"] == ["schedule", "merge_group"]
    labels = "gpu,run-${{ github.run_id }}"
    assert {words[words.index("--labels") + 1] for words in asked if words[1] == "queue"} == {labels}
    assert [words[2] for words in asked if words[1] in ("cancel", "show")] == ["50001", "50002"]
    assert "gpu-ci repro" not in capsys.readouterr().out
    world.insert(Record(JOB, "50009", "test", "", {}, attempt(50009, "completed", 50004), "api"))  # runs it again
    assert job.run_job("staging", "", "", job.EXAMPLES["priority"], job.Terminal()) == 0
    assert "gpu-ci repro" in capsys.readouterr().out


def test_a_stack_that_is_not_up_is_refused_with_the_command_that_brings_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pulumi-sandbox").write_text("#!/bin/sh\necho 'error: no stack named prod' >&2\nexit 1\n")
    (tmp_path / "pulumi-sandbox").chmod(0o755)
    monkeypatch.setattr(job, "BIN", tmp_path)
    with pytest.raises(InputError, match=r"pulumi-sandbox up --stack prod$"):
        job.configuration("prod")


def test_a_stack_without_machines_is_refused_with_what_a_job_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "error: current stack does not have output property 'manager'"
    (tmp_path / "pulumi-sandbox").write_text(f'#!/bin/sh\necho "{error}" >&2\nexit 1\n')
    (tmp_path / "pulumi-sandbox").chmod(0o755)
    monkeypatch.setattr(job, "BIN", tmp_path)
    with pytest.raises(
        InputError, match=r"has no runner manager\n  expected: a pool on Compute Engine.*\n  hint: on Kubernetes"
    ):
        job.configuration("prod")


def test_the_manager_gets_the_pools_of_one_supplier_and_the_chosen_one_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = [{"name": "a10g", "supplier": "ec2"}, {"name": "l4"}, {"name": "t4"}, {"name": "x", "supplier": "ec2"}]
    (tmp_path / "pulumi-sandbox").write_text(f"#!/bin/sh\necho '{json.dumps({'pools': pools})}'\n")
    (tmp_path / "pulumi-sandbox").chmod(0o755)
    monkeypatch.setattr(job, "BIN", tmp_path)
    found = {
        pool: [each["name"] for each in job.configuration("staging", pool)["pools"]] for pool in ("", "t4", "ec2", "x")
    }
    assert found == {"": ["l4", "t4"], "t4": ["t4", "l4"], "ec2": ["a10g", "x"], "x": ["x", "a10g"]}
    with pytest.raises(InputError, match=r"no such pool[^$]*got: l5\n  expected: one of l4, t4, a10g, x\n"):
        job.configuration("staging", "l5")


def test_an_example_has_its_own_steps() -> None:
    assert job.example_of("", ("ls",)).scripts == ("ls",)
    assert "Xid" in job.example_of("broken-gpu", ()).scripts[0]
    with pytest.raises(InputError, match=r"unknown example\n  got: broken\n  expected: one of broken-gpu"):
        job.example_of("broken", ())
    with pytest.raises(InputError, match="has its own steps"):
        job.example_of("broken-gpu", ("ls",))


@pytest.mark.parametrize("field", [{"supplier": "ec2"}, {"public": True}])
def test_warm_machines_are_refused_where_a_pool_cannot_have_them(
    world: World, tmp_path: Path, field: dict[str, Any]
) -> None:
    pool, terminal = {"name": "a10g", "rungs": [], **field}, job.Terminal()
    machines = job.Machines(world, terminal, [pool])
    with pytest.raises(InputError, match=r"cannot have warm machines\n  got: a10g\n  expected: a pool on Compute"):
        job.run_warm(tmp_path, {"pools": [pool]}, terminal, machines, lambda: pytest.fail("a job is queued"))


def test_it_is_refused_before_the_servers_of_the_sandbox_start(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers need packages that a stack on AWS alone does not have."""

    def refuse(*_: str) -> None:
        raise InputError("the stack has no runner manager")

    monkeypatch.setattr(job, "configuration", refuse)
    monkeypatch.setattr(job.subprocess, "Popen", lambda *_: pytest.fail("the servers start"))
    answer = CliRunner().invoke(gpu_ci, ["job"])
    assert (answer.exit_code, answer.output) == (2, "Error: the stack has no runner manager\n")


def test_a_folder_without_a_project_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (ENDPOINT, "PULUMI_SANDBOX_DIR"):
        monkeypatch.delenv(name, raising=False)
    answer = CliRunner().invoke(gpu_ci, ["job"])
    assert (answer.exit_code, answer.output.count("no Pulumi project here")) == (2, 1)
