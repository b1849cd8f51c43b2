"""Objects of several clusters in one world, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pulumi_sandbox.world.store import Record, World

from tests.sandbox.cli.test_world import run

SPACE = "kubernetes:core/v1:Namespace"


def test_a_listing_names_the_cluster_and_an_object_is_named_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    world = World(tmp_path / "world.db")
    world.insert(Record("gcp:toys/box:Box", "boxes/a", "a"))
    assert "CLUSTER" not in run("list").output
    for cluster in ("us-east-1/ci", "us-east-1/other"):
        made = Record(SPACE, "gpu-ci", "space", outputs={"status": {"phase": "Active"}}, cluster=cluster)
        world.insert(made)
    listed = [line.split() for line in run("list").output.splitlines()]
    assert [words[-1] for words in listed if SPACE in words] == ["us-east-1/ci", "us-east-1/other"]
    assert [row["cluster"] for row in json.loads(run("list", "--json").stdout)] == [
        "",
        "us-east-1/ci",
        "us-east-1/other",
    ]
    for word in ("gpu-ci", "space", f"{SPACE}/gpu-ci"):
        output = run("show", word, code=1).output
        assert f"2 resources have this name\n  hint: use one of:\n    {SPACE}/gpu-ci@us-east-1/ci\n" in output
    other = f"{SPACE}/gpu-ci@us-east-1/other"
    run("edit", other, "status.phase=Terminating")
    assert [row.outputs["status"]["phase"] for row in world.find(SPACE)] == ["Active", "Terminating"]
    assert run("remove", other).output == f"removed {other}\n"
    assert [row.cluster for row in world.find(SPACE)] == ["us-east-1/ci"]
    assert run("events", "--last", "1").output.split()[-1] == "us-east-1/other"
