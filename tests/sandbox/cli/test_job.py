"""The command `pulumi-sandbox job`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pulumi_sandbox.cli.job_commands import job as command
from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.state import Actions
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.world.store import World

QUEUE = ("queue", "--repository", "kernels", "--labels", "self-hosted,gpu, l4", "--run", "nvidia-smi")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty project, and its world as a server has it open."""
    (tmp_path / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    (tmp_path / "sandbox.yaml").write_text("exists: {github: ['acme/*', apps/17/installations/18]}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path / "sandbox"))
    world = World(tmp_path / "sandbox" / "world.db")
    yield world
    world.close()


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(command, list(words))
    assert result.exit_code == code, result.output
    return result


def listed(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("list", "--json", *words).stdout)
    return found


def take(world: World, name: str = "vm-1") -> tuple[Actions, dict[str, Any]]:
    """A runner of the server that has the oldest job."""
    actions = Actions(world, Repositories(world, ("acme/*",)))
    runner, credential = actions.register("orgs/acme", name, 1, ["self-hosted", "gpu", "l4"], "_work")
    assert actions.runner_of(credential) is not None
    assert actions.assign(runner["id"], "orgs/acme") is not None
    return actions, actions.runners("orgs/acme")[0].outputs


def test_a_job_has_the_event_and_the_label_of_its_run(project: World) -> None:
    queued = json.loads(
        run(
            *QUEUE[:3], "--labels", "gpu,run-${{ github.run_id }}", "--run", "ls", "--event", "schedule", "--json"
        ).stdout
    )
    assert queued["labels"] == ["gpu", f"run-{queued['run_id']}"]
    actions = Actions(project, Repositories(project, ("acme/*",)))
    assert documents.run(actions.run(queued["run_id"]))["event"] == "schedule"


def test_a_job_is_queued_for_the_runners_that_another_process_serves(project: World) -> None:
    run(*QUEUE, "--run", "python -c 1", "--name", "smoke", "--workflow", "GPU tests")
    actions, runner = take(project)
    row = project.get("github:rest/job:Job", str(runner["job"]))
    assert row is not None
    assert row.inputs == {
        "name": "smoke",
        "labels": ["self-hosted", "gpu", "l4"],
        "steps": [
            {"name": "Run nvidia-smi", "run": "nvidia-smi"},
            {"name": "Run python -c 1", "run": "python -c 1"},
        ],
        "group": "",
    }
    (found,) = listed()
    assert (found["status"], found["runner_name"], found["workflow_name"]) == ("in_progress", "vm-1", "GPU tests")
    steps = [{"name": "Run nvidia-smi", "conclusion": "failure", "number": 1}]
    actions.finish(runner["job"], "failure", steps, "nvidia-smi: not found\n")
    shown = run("show", str(found["id"])).stdout
    assert "step 1: Run nvidia-smi: failure" in shown
    assert "nvidia-smi: not found" in shown


def test_a_job_may_name_only_a_runner_group(project: World) -> None:
    run("queue", "--repository", "kernels", "--group", "gpu", "--run", "true")
    assert [one["labels"] for one in listed()] == [[]]


def test_cancelling_a_queued_job_ends_its_run(project: World) -> None:
    run(*QUEUE)
    assert run("cancel", "50001").stdout == "cancelled run 10001\n"
    assert [one["conclusion"] for one in listed()] == ["cancelled"]
    refused = run("cancel", "50001", code=1).output
    assert "50001: its run 10001 has ended already\n  got: cancelled" in refused


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("show", "7"), 1, "job: 7: no such job\n  hint: pulumi-sandbox job list shows them"),
        (("queue", "--repository", "other/kernels", "--labels", "gpu", "--run", "x"), 1, "no such repository"),
        (("queue", "--repository", "kernels", "--labels", " ,", "--run", "x"), 1, "Error: job: --labels: has no label"),
    ],
)
def test_what_cannot_be_done_is_refused(project: World, words: tuple[str, ...], code: int, text: str) -> None:
    assert text in run(*words, code=code).output


def test_a_runner_that_went_silent_is_noticed_without_a_server(project: World) -> None:
    run(*QUEUE)
    actions, runner = take(project)
    project.update(
        "github:rest/runner:Runner", f"orgs/acme/{runner['id']}", outputs={**runner, "seenAt": actions.now() - 31}
    )
    assert [one["conclusion"] for one in listed()] == ["failure"]


@pytest.mark.parametrize("script", ["", " ", "\n"])
def test_a_step_without_a_command_is_refused(project: World, script: str) -> None:
    result = run(*QUEUE[:-1], script, code=1)
    assert result.output == f"Error: job: --run: has no command\n  got: {script!r}\n  expected: such as ls\n"
    assert listed() == []
