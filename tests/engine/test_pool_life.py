"""Tests of a pool's template and group, with the messages and their order that the user of `up` sees."""

from __future__ import annotations

import re
import zlib
from contextlib import closing
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.world.store import Record, World

from tests.engine.test_staging import TEMPLATE, UP
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

PROJECT = "example-ci-staging"
# What the engine does to a template and its gate before the group moves, and after it.
NEW_TEMPLATE = [("create-replacement", "l4-template"), ("replace", "l4-template")]
NEW_GATE = [("create-replacement", "l4-gate"), ("replace", "l4-gate")]
MOVES = ("update", "l4-group")
OLD_GATE, OLD_TEMPLATE = ("delete-replaced", "l4-gate"), ("delete-replaced", "l4-template")


def changed(sandbox: SandboxRunner, **fields: Any) -> tuple[str, ...]:
    """Return the arguments of an `up` of the staging stack with other fields of its pool."""
    paths: dict[tuple[str, ...], Any] = {("gpu-ci:pools", "l4", name): value for name, value in fields.items()}
    return (*UP, "--config-file", str(sandbox.stack_file("Pulumi.staging.yaml", paths)))


def found(sandbox: SandboxRunner, name: str) -> list[dict[str, Any]]:
    return [row for row in sandbox.world() if row["name"] == name]


def templates(sandbox: SandboxRunner) -> list[str]:
    return [row["outputs"]["selfLink"] for row in found(sandbox, "l4-template")]


def group(sandbox: SandboxRunner) -> dict[str, Any]:
    [row] = found(sandbox, "l4-group")
    shown: dict[str, Any] = sandbox.json("world", "show", row["id"], "--json")["outputs"]
    return shown


def outputs(sandbox: SandboxRunner) -> dict[str, Any]:
    told: dict[str, Any] = sandbox.json("stack", "output", "--stack", "staging", "--json")["pools"]["l4"]
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields", [{"machineType": "g2-standard-12"}, {"transform": {"template": {"machineType": "g2-standard-12"}}}]
)
def test_a_failed_check_fails_the_up_with_its_own_words_and_the_old_template_serves_until_the_next_up(
    proven: SandboxRunner, fields: dict[str, Any]
) -> None:
    [old] = templates(proven)
    # On a machine without a GPU a guest that must use CUDA fails for the real reason.
    proven.run("world", "break", "guest", "--set", "GPU_SMOKE_DEVICE=cuda", "--times", "1")
    larger = changed(proven, **fields)
    failed, done = proven.steps(*larger, ok=False)
    assert done == NEW_TEMPLATE
    assert failed.has(
        "error: the smoke check failed in us-central1-a: l4: no CUDA device",
        "hint: no pool uses this template; the next pulumi up runs the check again",
    )
    assert "Traceback" not in failed.output
    # Both are there at once, under names of their own.
    [new] = [link for link in templates(proven) if link != old]
    assert re.search(r"/l4-template-[0-9a-f]{7}$", old)
    assert re.search(r"/l4-template-[0-9a-f]{7}$", new)
    assert group(proven)["versions"] == [{"instanceTemplate": old}]

    again, done = proven.steps(*larger)
    assert done == [*NEW_GATE, MOVES, OLD_GATE, OLD_TEMPLATE]
    assert again.has("pass: l4:", "~ 1 updated", "+-1 replaced")
    assert templates(proven) == [new]
    assert group(proven)["versions"] == [{"instanceTemplate": new}]
    assert found(proven, "l4-template")[0]["outputs"]["machineType"] == "g2-standard-12"


@pytest.mark.slow
def test_an_old_template_that_google_still_holds_costs_nothing_but_a_second_up(proven: SandboxRunner) -> None:
    """Google reports a template as in use while its group still has machines of it (hashicorp/terraform#21865)."""
    [old] = templates(proven)
    proven.run("world", "break", "busy", "--on", TEMPLATE)
    larger = changed(proven, machineType="g2-standard-12")
    failed = proven.run(*larger, ok=False)
    assert failed.has(
        "pass: l4:",
        f"error: Error deleting RegionInstanceTemplate: googleapi: Error 400: The RegionInstanceTemplate resource "
        f"'{old.partition('/v1/')[2]}' is already being used by",
    )
    # The pool serves from the new template; the old one waits for the next `up`, which does nothing else.
    [new] = [link for link in templates(proven) if link != old]
    assert group(proven)["versions"] == [{"instanceTemplate": new}]

    _, done = proven.steps(*larger)
    assert done == [OLD_TEMPLATE]
    assert templates(proven) == [new]


@pytest.mark.slow
def test_a_quota_is_reported_apart_from_a_stockout_and_both_from_success(proven: SandboxRunner) -> None:
    larger = changed(proven, diskGib=120)
    proven.run("world", "break", "quota")
    failed = proven.run(*larger, ok=False)
    assert failed.has(
        "error: Google rejected the check machine: Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.  Limit: 0.0 in region "
        "us-central1.",
        "hint: other zones use the same quota, so request more at IAM & Admin > Quotas & System "
        "Limits, filter PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region of us-central1: "
        "https://console.cloud.google.com/iam-admin/quotas?project=example-ci-staging",
    )
    assert "us-central1-b" not in failed.output.partition("Outputs:")[0]

    proven.run("world", "break", "stockout", "--times", "3")
    failed = proven.run(*larger, ok=False)
    assert failed.has(
        "error: the smoke check could not run: no zone had capacity for the check machine: us-central1-a, "
        "us-central1-b, us-central1-c\n",
        "hint: try again later, add zones, or set smoke.onNoCapacity to unproven",
    )

    proven.run("world", "break", "stockout", "--zone", "us-central1-a")
    proven.run("world", "break", "stockout", "--zone", "us-central1-b")
    passed, done = proven.steps(*larger)
    assert passed.has(
        "us-central1-a has no capacity for the machine; Google suggests us-central1-b, us-central1-c",
        "us-central1-b has no capacity for the machine; Google suggests us-central1-a, us-central1-c",
        "starting a check machine in us-central1-c",
    )
    assert done == [*NEW_GATE, MOVES, OLD_GATE, OLD_TEMPLATE]
    assert outputs(proven)["verdict"] == "pass"


@pytest.mark.slow
def test_a_refresh_finds_a_deleted_template_and_drift_and_mends_all_but_a_size_that_others_set(
    proven: SandboxRunner,
) -> None:
    [template], [row] = found(proven, "l4-template"), found(proven, "l4-group")
    proven.run("world", "remove", template["id"])
    proven.run("world", "edit", row["id"], "updatePolicy.type=PROACTIVE", "targetSize=3")
    mended, done = proven.steps(*UP, "--refresh")
    assert done == [("create", "l4-template"), *NEW_GATE, MOVES, OLD_GATE]
    assert mended.has("starting a check machine in us-central1-a", "l4-group updated", "[diff: ~updatePolicy,versions]")
    assert "targetSize" not in mended.output
    [new] = templates(proven)
    assert new != template["outputs"]["selfLink"]
    after = group(proven)
    assert after["versions"] == [{"instanceTemplate": new}]
    assert (after["updatePolicy"]["type"], after["targetSize"]) == ("OPPORTUNISTIC", 3)


def stopped_machine(sandbox: SandboxRunner, name: str, template: str) -> None:
    """Create a stopped machine of the runner manager, in a zone that the pool's check does not use."""
    path = f"projects/{PROJECT}/zones/us-central1-f/instances/{name}"
    outputs = {
        "id": str(zlib.crc32(name.encode())),
        "name": name,
        "zone": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/us-central1-f",
        "status": "TERMINATED",
        "labels": {"gpu-ci-manager": "staging", "gpu-ci-pool": "l4", "gpu-ci-template": template},
        "metadata": {"items": []},
    }
    with closing(World(sandbox.folder / "world.db")) as world:
        world.insert(Record(INSTANCE, path, name, outputs=outputs, origin="api"))


@pytest.mark.slow
def test_a_destroy_deletes_the_managers_stopped_machines_of_the_stack_and_of_no_other(proven: SandboxRunner) -> None:
    [template] = templates(proven)
    stopped_machine(proven, "l4-stopped-1", template.partition("?")[0].rpartition("/")[2])
    stopped_machine(proven, "l4-of-another-stack", "l4-template-0000000")
    assert {row["name"] for row in proven.world() if row["type"] == INSTANCE} == {"l4-stopped-1", "l4-of-another-stack"}
    proven.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
    assert [row["name"] for row in proven.world()] == ["l4-of-another-stack"]
