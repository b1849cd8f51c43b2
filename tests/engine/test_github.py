"""Tests of the GitHub resources with the real engine: the effect of one change, and places without secrets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
PLANTED = {"FIRST": "planted-4711-first", "SECOND": "planted-4712-second"}
ROTATED = {**PLANTED, "FIRST": "planted-4713-third"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = SandboxRunner(project=ROOT / "tests" / "programs" / "github", folder=tmp_path / "hub")
    yield runner
    runner.close()


def world(runner: SandboxRunner) -> list[str]:
    return sorted(row["name"] for row in runner.world())


@pytest.mark.slow
def test_a_public_repository_is_refused_a_change_touches_what_it_must_and_no_secret_is_in_plain_text(
    hub: SandboxRunner,
) -> None:
    refused = hub.run("preview", "--stack", "dev", **PLANTED, ALSO="open-web", ok=False)
    assert refused.has(
        "RunnerGroup 'gpu': repositories[2]: is a public repository",
        "hint: remove it, or set publicRepositories: true in a stack of its own",
    )
    assert "Traceback" not in refused.output
    assert world(hub) == []

    said = [hub.run(*UP, **PLANTED).output]
    there = ["gpu-group", "kernels", "main-ruleset", "own-secret-SECOND", "shared-secret-FIRST", "shared-secret-SECOND",
             "shared-variable-REGION"]  # fmt: skip
    assert world(hub) == there

    rotated = hub.run(*UP, "--diff", **ROTATED)
    assert rotated.has("~ 1 updated", "::shared-secret-FIRST]")
    assert "replaced" not in rotated.output

    # The provider replaces an organization's secrets then; deleted last, they would be gone from GitHub.
    more = hub.run(*UP, **ROTATED, ALSO="api")
    assert more.has("+-2 replaced", "~ 2 updated")
    assert world(hub) == there
    assert "12 unchanged" in hub.run("refresh", "--stack", "dev", "--yes", **ROTATED).output

    moved = hub.run(*UP, **ROTATED, ALSO="api", RULED="api")
    assert moved.has("+-1 replaced", "main-ruleset")
    assert world(hub) == there

    said += [rotated.output, more.output, moved.output, str(hub.state("dev"))]
    found = [file for file in hub.folder.rglob("*") if file.is_file() and b"planted-47" in file.read_bytes()]
    assert found == []
    assert [text for text in said if "planted-47" in text] == []


@pytest.mark.slow
def test_a_group_for_workflows_fails_where_the_plan_leaves_the_restriction_out(tmp_path: Path) -> None:
    project = tmp_path / "program"
    shutil.copytree(ROOT / "tests" / "programs" / "github", project)
    described = project / "Pulumi.yaml"
    described.write_text(described.read_text().replace("../../../.venv", str(ROOT / ".venv")))
    hub = SandboxRunner(project=project, folder=tmp_path / "hub")
    try:
        wanted = {**PLANTED, "WORKFLOWS": "acme/web/.github/workflows/gpu.yml@refs/heads/main"}
        missing = ("RunnerGroup 'gpu': selectedWorkflows: is not in force", "expected: GitHub Enterprise Cloud")
        first = hub.run(*UP, **wanted, ok=False)
        assert first.has(*missing)
        assert "Traceback" not in first.output
        assert hub.run(*UP, **wanted, ok=False).has(*missing)

        # The organization changes its plan: the same program updates the group.
        settings = project / "sandbox.yaml"
        settings.write_text(f"github: {{plans: {{acme: enterprise}}}}\n{settings.read_text()}")
        assert hub.run(*UP, **wanted).has("~ 1 updated")
    finally:
        hub.close()
