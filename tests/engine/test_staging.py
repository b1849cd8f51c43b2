"""The staging stack from end to end: the real engine, offline providers, and a check that really runs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.gpu_ci.program.stack import config
from tests.gpu_ci.program.test_settings import SIX_MISTAKES, THEIR_REPORT
from tests.sandbox_runner import AS_FOR_USERS, SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"


def only(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [row] = [row for row in rows if row["type"] == kind]
    return row


def test_up_proves_the_pool_the_second_one_keeps_even_a_size_that_others_set_and_mistakes_change_nothing(
    proven: SandboxRunner,
) -> None:
    sandbox = proven
    world = sandbox.world()
    assert [row["origin"] for row in world] == ["stack"] * len(world), "the check VM stayed behind"
    group = only(world, GROUP)
    template = only(world, TEMPLATE)
    shown = sandbox.json("world", "show", group["id"], "--json")
    assert shown["outputs"]["versions"] == [{"instanceTemplate": template["outputs"]["selfLink"]}]
    assert shown["outputs"]["targetSize"] == 0

    outputs = sandbox.json("stack", "output", "--stack", "staging", "--json")
    assert set(outputs) == {"pools", "smokeTargets", "cost"}
    assert outputs["cost"]["usdWorstMonth"] == outputs["pools"]["l4"]["cost"]["usdWorstMonth"] > 0
    assert outputs["pools"]["l4"]["verdict"] == "pass"
    assert outputs["pools"]["l4"]["machineType"] == "g2-standard-8"
    assert [target["pool"] for target in outputs["smokeTargets"]] == ["l4"]

    sandbox.run("world", "edit", group["id"], "targetSize=3")
    second = sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview", "--expect-no-changes", **AS_FOR_USERS)
    assert "7 unchanged" in second.output
    # A kill while pulumi writes such a file would leave a state that no command can read.
    assert list((sandbox.folder / "state").rglob("*.attrs")) == []
    assert sandbox.json("world", "show", group["id"], "--json")["outputs"]["targetSize"] == 3

    mistakes = sandbox.folder / "Pulumi.staging.yaml"
    mistakes.write_text(yaml.safe_dump({"config": config(SIX_MISTAKES)}))
    failed = sandbox.run(*UP, "--config-file", str(mistakes), ok=False)
    shown = "\n".join(line.strip() for line in failed.output.splitlines())
    assert [line for line in THEIR_REPORT.splitlines() if line.strip() not in shown] == []
    assert "Traceback" not in failed.output
    assert [(row["type"], row["id"]) for row in sandbox.world()] == [(row["type"], row["id"]) for row in world]
    assert sandbox.gone() == {}
