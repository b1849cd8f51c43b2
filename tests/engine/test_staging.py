"""The staging stack from end to end: the real engine, offline providers, and a check that really runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox_runner import AS_FOR_USERS, SandboxRunner

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"


def only(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [row] = [row for row in rows if row["type"] == kind]
    return row


def test_up_proves_the_pool_and_the_second_up_changes_nothing_not_even_a_size_that_others_set(
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
    assert sandbox.gone() == {}
