"""Other teams' stacks: the class and the plugin build the same resources and refuse the same mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")


@pytest.fixture
def consumers(tmp_path: Path) -> Iterator[dict[str, SandboxRunner]]:
    runners = {
        kind: SandboxRunner(project=ROOT / "tests" / "programs" / kind, folder=tmp_path / kind)
        for kind in ("direct", "remote")
    }
    yield runners
    for runner in runners.values():
        runner.close()


def built(runner: SandboxRunner) -> list[tuple[str, str, str]]:
    """Return type, name and inputs of every resource, without values that differ between runs."""
    found = []
    for resource in runner.state("dev"):
        if resource["type"].startswith("pulumi:"):
            continue
        _, _, tail = resource["urn"].partition("::consumer::")
        # The random end of automatic names is the one thing two runs may differ in.
        inputs = re.sub(r"-[0-9a-f]{7}\b", "-#######", json.dumps(resource.get("inputs", {}), sort_keys=True))
        # A remote component's own inputs are recorded, a local one's are not.
        found.append((tail, "", "" if resource["type"] == "gpu-ci:gcp:RunnerPool" else inputs))
    return sorted(found)


@pytest.mark.slow
def test_the_plugin_and_the_class_build_the_same_resources_with_an_output_as_input(
    consumers: dict[str, SandboxRunner],
) -> None:
    for runner in consumers.values():
        runner.run(*UP)
    direct, remote = built(consumers["direct"]), built(consumers["remote"])
    assert len(direct) == 8  # a network, a subnetwork, the component and its five children
    assert remote == direct
    for runner in consumers.values():
        outputs = runner.json("stack", "output", "--stack", "dev", "--json")
        assert outputs["verdict"] == "pass"
        assert "/instanceTemplates/l4-template-" in outputs["template"]
    again = consumers["remote"].run(*UP)
    assert "9 unchanged" in again.output  # those eight and the stack


@pytest.mark.slow
def test_resources_that_depend_on_a_pool_are_not_created_before_its_check_passes(tmp_path: Path) -> None:
    project = ROOT / "tests" / "programs" / "dependent"
    with closing(SandboxRunner(project=project, folder=tmp_path / "dependent")) as runner:
        runner.run("world", "break", "stockout", "--times", "2")
        failed, done = runner.steps(*UP, ok=False)
        assert failed.has("the smoke check could not run: no zone had capacity for the check machine")
        made = {name for operation, name in done if operation == "create"}
        assert {"l4-template", "anytime"} <= made
        assert made.isdisjoint({"l4-gate", "l4-group", "afterwards"})
        assert [row["name"] for row in runner.world() if row["type"] == "gcp:storage/bucket:Bucket"] == ["anytime"]


@pytest.mark.slow
def test_a_mistake_is_reported_the_same_way_on_both_ways_in(tmp_path: Path) -> None:
    wrong = {"g2-standard-8": "g2-standrd-8", '"max": 2': '"max": 0', "max=2": "max=0"}
    for kind in ("direct", "remote"):
        project = tmp_path / kind
        project.mkdir()
        for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "sandbox.yaml", "__main__.py"):
            text = (ROOT / "tests" / "programs" / kind / name).read_text().replace("../../../", f"{ROOT}/")
            for right, mistake in wrong.items():
                text = text.replace(right, mistake)
            (project / name).write_text(text)
        runner = SandboxRunner(project=project, folder=tmp_path / f"sandbox-{kind}")
        failed = runner.run("up", "--stack", "dev", "--yes", "--skip-preview", ok=False)
        assert failed.has("machineType", "g2-standard-8", "max", "must be at least 1"), failed.output
        # Pulumi's Python SDK prints a traceback for a refused remote component. It has no line of gpu_ci.
        assert "gpu_ci" not in failed.output.partition("Traceback")[2]
        assert ("Traceback" in failed.output) is (kind == "remote")
        assert not any("Template" in row["type"] for row in runner.world())
        runner.close()
