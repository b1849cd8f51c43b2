"""The Actions Runner Controller brought from its previous minor version to the pinned one, while a job runs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions
from pulumi_sandbox.world.store import Record, World

from tests.conftest import lay_out, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

ARC, RELEASE, REGISTERED = "example-ci-arc-release", "a10g-runners-release", "a10g-runners-registered"
KINDS = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
DEFINITIONS = [("update", f"example-ci-arc-{kind}") for kind in KINDS]
ARC_KIND = "kubernetes:actions.github.com/v1alpha1:"
RUNNER, RUNNER_SET, POD = f"{ARC_KIND}EphemeralRunner", f"{ARC_KIND}AutoscalingRunnerSet", "kubernetes:core/v1:Pod"
# The parts of this package for ARC when it pinned 0.13.1: the charts, and the definitions. These name the version of
# controller-gen that wrote them (actions/actions-runner-controller@a505fb5,
# charts/gha-runner-scale-set-controller/crds), and lack a field that is new in 0.14.
BEFORE = """
import copy
from gpu_ci import versions
from gpu_ci.kubernetes import arc_controller

def _before():
    for one in copy.deepcopy(PINNED):
        one["metadata"]["annotations"]["controller-gen.kubebuilder.io/version"] = "v0.19.0"
        if one["spec"]["names"]["kind"] == "AutoscalingRunnerSet":
            fields = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            del fields["runnerScaleSetLabels"]
        yield one

PINNED = arc_controller.definitions()
versions.ARC_CHARTS, arc_controller.definitions = "0.13.1", lambda: list(_before())
"""


@pytest.fixture
def now(shared: Path) -> Path:
    """Return this project with a pool on EKS, of which one runner waits for a job."""
    config = stack.on_eks()
    config["gpu-ci:pools"]["a10g"]["minIdle"] = 1
    return project_of(shared, "arc", config, eks.settings())


@pytest.fixture
def before(now: Path, tmp_path: Path) -> Path:
    """Return the same project with the previous minor version pinned."""
    folder = tmp_path / "before"
    folder.mkdir()
    lay_out(folder)
    for name in ("sandbox.yaml", "Pulumi.staging.yaml"):
        shutil.copy(now / name, folder)
    program = folder / "infra" / "__main__.py"
    head, future, tail = program.read_text().partition("from __future__ import annotations\n")
    program.write_text(head + future + BEFORE + tail)
    return folder


@pytest.fixture
def old(before: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = SandboxRunner(before, tmp_path / "sandbox")
    yield runner
    runner.close()


@pytest.fixture
def new(now: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield this checkout's program on the same sandbox."""
    runner = SandboxRunner(now, tmp_path / "sandbox")
    yield runner
    runner.close()


def only(world: World, token: str) -> Record:
    [row] = world.find(token)
    return row


def versions_of(world: World) -> dict[str, Any]:
    rows = {row.name: row for row in world.find("kubernetes:helm.sh/v3:Release")}
    return {name: rows[name].inputs["version"] for name in (ARC, RELEASE)}


@pytest.mark.slow
def test_a_new_minor_version_goes_definitions_first_then_controller_then_sets_and_lets_a_running_job_end(
    old: SandboxRunner, new: SandboxRunner
) -> None:
    old.run(*eks.UP)
    world = World(new.folder / "world.db")
    assert versions_of(world) == {ARC: "0.13.1", RELEASE: "0.13.1"}
    working = only(world, RUNNER).id
    new.run("world", "edit", f"{RUNNER}/{working}", 'status.jobId="17"')

    # What waits for GitHub's id of the set goes before the set, and waits for the id of the new one.
    anew = [
        ("delete-replaced", REGISTERED),
        *((operation, RELEASE) for operation in ("delete-replaced", "replace", "create-replacement")),
        *((operation, REGISTERED) for operation in ("replace", "create-replacement")),
    ]
    preview, planned = new.steps("preview", "--stack", "staging")
    assert (sorted(planned[:4]), planned[4:]) == (DEFINITIONS, [("update", ARC), *anew])
    assert preview.has("~ 5 to update", "+-2 to replace")

    log = new.folder / "upgrade.json"
    up = new.start(*eks.UP, "--event-log", str(log), PULUMI_DEBUG_COMMANDS="true")
    until = time.monotonic() + 120
    while versions_of(world)[ARC] != versions.ARC_CHARTS and up.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    # Time enough for a removal that does not wait.
    time.sleep(3)
    assert up.poll() is None
    assert versions_of(world) == {ARC: versions.ARC_CHARTS, RELEASE: "0.13.1"}
    assert "deletionTimestamp" in only(world, RUNNER_SET).outputs["metadata"]
    assert only(world, RUNNER).id == working
    assert working in [pod.id for pod in world.find(POD)]
    new.run("world", "edit", f"{RUNNER}/{working}", "status.phase=Succeeded")

    output, _ = up.communicate(timeout=120)
    assert up.returncode == 0, output
    deleted = "the controller 0.14.2 deletes the runner set gpu-ci/a10g, which has another minor version; the set waits"
    assert f"{deleted} for 1" in output
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event]
    done = [(step["op"], step["urn"].rpartition("::")[2]) for step in ended if step["op"] != "same"]
    assert (sorted(done[:4]), done[4:]) == (DEFINITIONS, [("update", ARC), *anew])

    assert versions_of(world) == {ARC: "0.14.2", RELEASE: "0.14.2"}
    assert only(world, RUNNER_SET).inputs["metadata"]["labels"]["app.kubernetes.io/version"] == "0.14.2"
    assert only(world, RUNNER).id != working
    assert only(world, RUNNER).id in [pod.id for pod in world.find(POD)]
    told = [(event.verb, event.type) for event in world.events() if event.id == working]
    assert told == [
        ("create", POD),
        ("create", RUNNER),
        ("update", RUNNER),
        ("update", RUNNER),
        ("delete", RUNNER),
        ("delete", POD),
    ]
