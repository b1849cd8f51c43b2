"""Compares the report with `pulumi-sandbox preview --json`, also for a program that does not use gpu_ci."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gpu_preview.engine.digest_steps import name_of, type_of
from gpu_preview.git.repository import Repository
from gpu_preview.model import Report

from tests.preview import small
from tests.preview.repository import provide_environment
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(600)]

SECOND_HALVES = ("create-replacement", "delete-replaced")


def plain(project: Path, sandbox: Path, stack: str) -> set[tuple[str, str]]:
    """Return operation and URN of each step of a plain preview."""
    runner = SandboxRunner(project=project, folder=sandbox)
    steps = runner.json("preview", "--stack", stack, "--json", "--non-interactive")["steps"]
    return {
        (step["op"], step["urn"])
        for step in steps
        if not is_not_counted(step["urn"]) and step["op"] not in ("same", *SECOND_HALVES)
    }


def is_not_counted(urn: str) -> bool:
    """Return True for the stack itself and for default providers."""
    is_provider = type_of(urn).startswith("pulumi:providers:")
    return type_of(urn) == "pulumi:pulumi:Stack" or (is_provider and name_of(urn).startswith("default"))


def reported(report: Report) -> set[tuple[str, str]]:
    return {(each.operation.value, each.urn) for each in report.stacks[0].resources if each.operation != "same"}


@pytest.mark.slow
def test_a_program_that_knows_nothing_of_ours_is_previewed_alike(tmp_path: Path) -> None:
    """The change replaces a namespace with its objects, uses an older image and another tag, and deletes a role."""
    folder = small.unrelated(tmp_path / "unrelated")
    text = (folder / "__main__.py").read_text()
    for old, new in (
        ('role = aws.iam.Role("worker", assume_role_policy=trust.json)\n', ""),
        ('pulumi.export("roleArn", role.arn)\n', ""),
        ('tags={"owner": "web"}', 'tags={"owner": "shop"}'),
        ('metadata={"name": "web"}', 'metadata={"name": "shop"}'),
        ('"registry.example/web:1.2.3"', '"registry.example/web:1.2.2"'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    small.change(folder, text)
    report = small.ask(folder, cache=tmp_path / "worlds")
    [stack] = report.stacks
    assert stack.error == ""
    assert (stack.counts.update, stack.counts.replace, stack.counts.delete) == (1, 2, 1)
    assert stack.cost is None
    checkout = tmp_path / "a checkout"
    repository = Repository.find(folder)
    repository.export(repository.commit("change"), checkout)
    provide_environment(checkout)
    [world] = (tmp_path / "worlds").iterdir()
    shutil.copytree(world / "world", tmp_path / "a sandbox")
    assert plain(checkout, tmp_path / "a sandbox", "dev") == reported(report)
