"""A provider that dies in the middle of a create: what is left is named, and the printed command adopts it."""

from __future__ import annotations

import shlex

import pytest

from tests.sandbox.conftest import Project

pytestmark = pytest.mark.engine

PROGRAM = """\
import pulumi
import pulumi_gcp as gcp

class Shop(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("small:index:Shop", name)
        self.bucket = gcp.storage.Bucket(
            f"{name}-bucket", project="p", location="EU", labels={"team": pulumi.Output.secret("hush-hush")},
            opts=pulumi.ResourceOptions(parent=self),
        )

shops = [Shop(name) for name in ("north", "south")]
pulumi.export("url", shops[0].bucket.url)
"""


@pytest.mark.slow
def test_the_printed_command_adopts_a_half_made_resource_under_its_own_parent(project: Project) -> None:
    sandbox = project(PROGRAM)
    sandbox.run("world", "break", "crash", "--on", "south-bucket")
    killed = sandbox.run("up", "--stack", "dev", "--yes", "--skip-preview", ok=False)
    # The engine waits for no answer of a dead provider: what else it was making may be half made too.
    orphans = sandbox.json("world", "orphans", "--json")
    assert "south-bucket" in [orphan["name"] for orphan in orphans]
    for orphan in orphans:
        assert orphan["adopt"] in killed.output
        assert orphan["remove"] in killed.output
        assert orphan["in_progress"] is False
        _, *command = shlex.split(orphan["adopt"])
        sandbox.run(*command)
    assert sandbox.json("world", "orphans", "--json") == []

    before = {row["name"]: row["id"] for row in sandbox.world()}
    up = sandbox.run("up", "--stack", "dev", "--yes", "--skip-preview")
    after = {row["name"]: row["id"] for row in sandbox.world()}
    assert set(after) == {"north-bucket", "south-bucket"}
    assert after == after | before, "something that was adopted was made anew"
    assert "deleted" not in up.output
    sandbox.run("up", "--refresh", "--stack", "dev", "--yes", "--skip-preview", "--expect-no-changes")


@pytest.mark.slow
def test_the_printed_command_takes_out_of_the_state_what_is_gone(project: Project) -> None:
    sandbox = project(PROGRAM)
    sandbox.run("up", "--stack", "dev", "--yes", "--skip-preview")
    sandbox.run("world", "remove", "south-bucket")
    [orphan] = sandbox.json("world", "orphans", "--json")
    _, *command = shlex.split(orphan["remove"])
    sandbox.run(*command)
    assert sandbox.json("world", "orphans", "--json") == []
    again = sandbox.run("up", "--stack", "dev", "--yes", "--skip-preview")
    assert "1 created" in again.output
    assert {row["name"] for row in sandbox.world()} == {"north-bucket", "south-bucket"}
