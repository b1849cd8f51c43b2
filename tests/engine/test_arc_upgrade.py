"""The Actions Runner Controller brought from its previous minor version to the pinned one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.world.store import World

from tests.conftest import lay_out, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

ARC, RELEASE, REGISTERED = "example-ci-arc-release", "a10g-runners-release", "a10g-runners-registered"
KINDS = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
DEFINITIONS = [("update", f"example-ci-arc-{kind}") for kind in KINDS]
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
    """Return this project with a pool on EKS."""
    return project_of(shared, "arc", stack.on_eks(), eks.settings())


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


def versions_of(world: World) -> dict[str, Any]:
    rows = {row.name: row for row in world.find("kubernetes:helm.sh/v3:Release")}
    return {name: rows[name].inputs["version"] for name in (ARC, RELEASE)}


@pytest.mark.slow
def test_a_new_minor_version_goes_definitions_first_then_controller_then_sets(
    old: SandboxRunner, new: SandboxRunner
) -> None:
    old.run(*eks.UP)
    world = World(new.folder / "world.db")
    assert versions_of(world) == {ARC: "0.13.1", RELEASE: "0.13.1"}

    # What waits for GitHub's id of the set goes before the set, and waits for the id of the new one.
    anew = [
        ("delete-replaced", REGISTERED),
        *((operation, RELEASE) for operation in ("delete-replaced", "replace", "create-replacement")),
        *((operation, REGISTERED) for operation in ("replace", "create-replacement")),
    ]
    preview, planned = new.steps("preview", "--stack", "staging")
    assert (sorted(planned[:4]), planned[4:]) == (DEFINITIONS, [("update", ARC), *anew])
    assert preview.has("~ 5 to update", "+-2 to replace")

    _, done = new.steps(*eks.UP)
    assert (sorted(done[:4]), done[4:]) == (DEFINITIONS, [("update", ARC), *anew])
    assert versions_of(world) == {ARC: "0.14.2", RELEASE: "0.14.2"}
