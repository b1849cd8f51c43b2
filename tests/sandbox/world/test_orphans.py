"""Differences between the world and the states of the stacks."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.cli.serve import serve_lock_held
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.orphans import VM, Orphan, find, states
from pulumi_sandbox.world.store import Record, World

BOX = "gcp:toys/box:Box"
STACK = "urn:pulumi:dev::toys::pulumi:pulumi:Stack::toys-dev"


def urn(name: str, kind: str = BOX, stack: str = "dev") -> str:
    return f"urn:pulumi:{stack}::toys::{kind}::{name}"


def entry(name: str, identity: str, kind: str = BOX, **more: Any) -> dict[str, Any]:
    return {"urn": urn(name, kind), "custom": True, "id": identity, "type": kind.rpartition("$")[2], **more}


class Sandbox:
    """A sandbox's folder with a world and states written by hand."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder / "a sandbox", folder)

    def state(self, *entries: dict[str, Any], path: str = "toys/dev.json") -> Path:
        file = self.workspace.backend / ".pulumi" / "stacks" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        stack = {"urn": STACK, "custom": False, "type": "pulumi:pulumi:Stack"}
        text = json.dumps({"version": 3, "checkpoint": {"stack": "x", "latest": {"resources": [stack, *entries]}}})
        file.write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())
        return file

    def row(self, name: str, identity: str, kind: str = BOX, **more: Any) -> None:
        world = World(self.workspace.world)
        made_by: dict[str, Any] = {"urn": urn(name, kind)} | more
        world.insert(Record(kind.rpartition("$")[2], identity, name, **made_by))
        world.close()

    def lock(self, since: str, pid: int, hostname: str | None = None) -> None:
        folder = self.workspace.backend / ".pulumi" / "locks" / "organization" / "toys" / "dev"
        folder.mkdir(parents=True, exist_ok=True)
        content = {"pid": pid, "username": "me", "hostname": hostname or socket.gethostname(), "timestamp": since}
        (folder / "1.json").write_text(json.dumps(content))

    def found(self) -> list[Orphan]:
        return find(self.workspace)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_a_sandbox_that_agrees_has_no_orphans(sandbox: Sandbox) -> None:
    assert sandbox.found() == []
    sandbox.state(entry("a", "boxes/a"))
    sandbox.row("a", "boxes/a")
    assert sandbox.found() == []


def test_a_row_no_state_knows_is_named_with_both_commands(sandbox: Sandbox) -> None:
    sandbox.state(entry("a", "boxes/a"))
    sandbox.row("a", "boxes/a")
    sandbox.row("b", "boxes/b b")
    [orphan] = sandbox.found()
    assert (orphan.type, orphan.id, orphan.name, orphan.stack, orphan.in_progress) == (
        BOX,
        "boxes/b b",
        "b",
        "dev",
        False,
    )
    assert shlex.split(orphan.adopt) == [
        "pulumi-sandbox", "import", BOX, "b", "boxes/b b", "--stack", "dev", "--protect=false",
        "--generate-code=false", "--yes",
    ]  # fmt: skip
    assert shlex.split(orphan.remove) == ["pulumi-sandbox", "world", "remove", f"{BOX}/boxes/b b"]
    assert str(orphan) == (
        f"{BOX} b: it exists, but is not in the state of dev\n"
        f"    id:     boxes/b b\n    adopt:  {orphan.adopt}\n    remove: {orphan.remove}"
    )


def test_a_second_one_of_a_name_the_stack_has_already_can_only_be_removed(sandbox: Sandbox) -> None:
    sandbox.state(entry("a", "boxes/a-2"))
    sandbox.row("a", "boxes/a-1")
    sandbox.row("a", "boxes/a-2")
    [orphan] = sandbox.found()
    assert (orphan.id, orphan.adopt) == ("boxes/a-1", "")
    assert orphan.remove.startswith("pulumi-sandbox world remove ")


def test_an_entry_whose_row_is_gone_is_named_with_the_refresh_that_takes_it_out(sandbox: Sandbox) -> None:
    sandbox.state(entry("a", "boxes/a"))
    [orphan] = sandbox.found()
    assert orphan.adopt == ""
    assert shlex.split(orphan.remove) == [
        "pulumi-sandbox", "refresh", "--stack", "dev", "--yes", "--skip-preview", "--target", urn("a"),
    ]  # fmt: skip
    assert str(orphan).splitlines()[-1] == f"    fix:    {orphan.remove}"


def test_only_what_the_sandbox_serves_and_a_stack_owns_must_have_a_row(sandbox: Sandbox) -> None:
    sandbox.state(
        entry("p", "1", "pulumi:providers:gcp"),
        entry("g", "2", "gpu-ci:gcp:SmokeGate"),
        entry("e", "3", external=True),
        {"urn": urn("c", "gcp:toys:Component"), "custom": False, "type": "gcp:toys:Component"},
    )
    assert sandbox.found() == []


def test_a_resource_that_waits_for_its_deletion_is_known(sandbox: Sandbox) -> None:
    sandbox.state(entry("a", "boxes/new"), entry("a", "boxes/old", delete=True))
    sandbox.row("a", "boxes/old")
    sandbox.row("a", "boxes/new")
    assert sandbox.found() == []


@pytest.mark.parametrize(
    ("path", "name", "project"),
    [
        ("toys/dev.json", "dev", "toys"),
        ("toys/dev.json.gz", "dev", "toys"),
        ("dev.json", "dev", ""),
        ("my-team/toys/dev.json", "dev", "my-team/toys"),
    ],
)
def test_every_layout_of_the_file_backend_is_read(sandbox: Sandbox, path: str, name: str, project: str) -> None:
    file = sandbox.state(entry("a", "boxes/a"), path=path)
    file.with_name("dev.json.bak").write_text("{}")
    file.with_name("dev.json.attrs").write_text("{}")
    [state] = states(sandbox.workspace.backend)
    assert (state.stack, state.project, len(state.resources)) == (name, project, 2)
    sandbox.row("a", "boxes/a")
    assert sandbox.found() == []


POOL = "gpu-ci:gcp:RunnerPool"


def pool(name: str, *children: str) -> list[dict[str, Any]]:
    made = {"urn": urn(name, POOL), "custom": False, "type": POOL}
    return [made, *(entry(child, f"boxes/{child}", f"{POOL}${BOX}", parent=urn(name, POOL)) for child in children)]


@pytest.mark.parametrize(
    ("name", "pools", "parent"),
    [
        ("l4-big-template", [pool("l4"), pool("l4-big"), pool("t4")], "l4-big"),
        ("l4", [pool("l4"), pool("t4")], "l4"),
        ("l4b-group", [pool("l4"), pool("t4")], ""),
        ("l4b-group", [pool("l4", "l4-group")], ""),  # a pool l4b, made and renamed back to l4
        ("shared", [pool("l4", "l4-group", "other")], "l4"),
        ("shared", [pool("l4")], "l4"),
    ],
)
def test_a_row_in_a_component_is_adopted_under_the_parent_whose_name_it_bears(
    sandbox: Sandbox, name: str, pools: list[list[dict[str, Any]]], parent: str
) -> None:
    sandbox.state(*(one for pool in pools for one in pool))
    for one in (one for pool in pools for one in pool if one["custom"]):
        sandbox.row(one["urn"].split("::")[-1], one["id"], f"{POOL}${BOX}")
    sandbox.row(name, "boxes/x", f"{POOL}${BOX}")
    [orphan] = sandbox.found()
    words = shlex.split(orphan.adopt)
    assert [word for word in words if word.startswith("parent=")] == ([f"parent={urn(parent, POOL)}"] if parent else [])


def test_what_no_stack_made_and_what_a_removed_stack_made_can_only_be_removed(sandbox: Sandbox) -> None:
    sandbox.row("vm", "zones/a/vm", urn="", origin="api")
    sandbox.row("b", "boxes/b")
    vm, box = sandbox.found()
    assert (vm.adopt, vm.problem) == ("", "it exists, but no stack created it")
    assert (box.adopt, box.problem) == ("", "it exists, but its stack dev does not")
    assert vm.remove.endswith(f"world remove {BOX}/zones/a/vm")


def test_what_a_controller_made_goes_with_its_owner_and_is_no_orphan(sandbox: Sandbox) -> None:
    sandbox.row("smoke-x7k2p", "default/smoke-x7k2p", urn="", origin="controller")
    assert sandbox.found() == []


def test_a_patch_that_a_stack_let_go_of_is_no_orphan(sandbox: Sandbox) -> None:
    sandbox.state()
    kind = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
    sandbox.row("kept", "runners.example.com", f"{kind}Patch")
    sandbox.row("lost", "others.example.com", kind)
    assert [orphan.id for orphan in sandbox.found()] == ["others.example.com"]


def test_jobs_and_runners_are_no_orphans(sandbox: Sandbox) -> None:
    for number, kind in enumerate(("workflowRun:WorkflowRun", "job:Job", "runner:Runner")):
        sandbox.row("one", str(number), f"github:rest/{kind}", urn="", origin="api")
    assert sandbox.found() == []


def test_what_a_running_update_makes_is_marked_as_maybe_in_progress(sandbox: Sandbox) -> None:
    sandbox.state(entry("z", "boxes/z"))
    sandbox.row("old", "boxes/old", created="2026-01-01T00:00:00.000Z")
    sandbox.row("new", "boxes/new", created="2026-01-01T00:00:02.000Z")
    sandbox.lock("2026-01-01T00:00:01.123456789+00:00", os.getpid())
    assert {orphan.name: orphan.in_progress for orphan in sandbox.found()} == {"old": False, "new": True, "z": True}
    assert "is running" in str(sandbox.found()[1])


def test_a_machine_made_through_the_api_may_belong_to_any_running_update(sandbox: Sandbox) -> None:
    sandbox.row("check", "zones/a/check", urn="", origin="api")
    sandbox.lock("2026-01-01T00:00:00Z", os.getpid())
    [machine] = sandbox.found()
    assert (machine.in_progress, machine.remove) == (True, "")
    assert str(machine).splitlines()[1:] == [
        "    id:     zones/a/check",
        "    note:   it may belong to an update that is running; check again after the update",
    ]


def test_a_machine_of_a_runner_manager_is_no_orphan_while_its_sandbox_is_served(sandbox: Sandbox) -> None:
    sandbox.row("l4-0a1b2c3d", "zones/a/l4-0a1b2c3d", VM, urn="", origin="api")
    with serve_lock_held(sandbox.workspace):
        assert sandbox.found() == []
    assert [orphan.name for orphan in sandbox.found()] == ["l4-0a1b2c3d"]


def test_a_machine_of_a_runner_manager_that_is_on_standby_is_no_orphan(sandbox: Sandbox) -> None:
    off = {"status": "TERMINATED", "labels": {"gpu-ci-manager": "staging"}}
    sandbox.row("l4-1", "zones/a/l4-1", VM, urn="", origin="api", outputs=off)
    sandbox.row("l4-2", "zones/a/l4-2", VM, urn="", origin="api", outputs={**off, "status": "RUNNING"})
    sandbox.row("check", "zones/a/check", VM, urn="", origin="api", outputs={"status": "TERMINATED"})
    assert [orphan.name for orphan in sandbox.found()] == ["l4-2", "check"]


def test_the_lock_of_a_dead_process_marks_nothing(sandbox: Sandbox) -> None:
    sandbox.state()
    sandbox.row("new", "boxes/new")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    sandbox.lock("2020-01-01T00:00:00Z", child)
    assert [orphan.in_progress for orphan in sandbox.found()] == [False]
    sandbox.lock("2020-01-01T00:00:00Z", child, "another-machine")
    assert [orphan.in_progress for orphan in sandbox.found()] == [True]


def test_a_state_that_cannot_be_read_accuses_nobody(sandbox: Sandbox) -> None:
    sandbox.state().write_text('{"version": 3, "checkpoint"')
    sandbox.row("a", "boxes/a")
    assert sandbox.found() == []
