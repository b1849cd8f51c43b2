"""An image of EKS nodes with the real engine: promoted to a pool, checked there, and rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

NODES, JOB, TAG = "a10g-nodes-nodes", "a10g-smoke-job", "a10g-nodes-image-in-use"
EXISTING = ("ami-0a1b2c3d4e5f6071a", "ami-0a1b2c3d4e5f6071b")  # the examples of the sandbox
IMAGES = [f"ghcr.io/example-org/cuda-runner@sha256:{'0' * 64}"]


def config(**pool: Any) -> dict[str, Any]:
    found = stack.on_eks()
    found["gpu-ci:images"] = {"nodes": {"kind": "ami", "clusterName": "example-ci", "images": IMAGES, "keep": 2}}
    found["gpu-ci:pools"]["a10g"].update(pool)
    return found


@pytest.fixture(scope="session")
def project_with_images(shared: Path) -> Path:
    return project_of(shared, "ami", config(), eks.settings())


@pytest.fixture(scope="session")
def up_with_images(project_with_images: Path) -> BroughtUp:
    return bring_up(project_with_images)


@pytest.fixture
def deployed(project_with_images: Path, up_with_images: BroughtUp, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the pool and the pipeline are deployed."""
    runner = copied(project_with_images, up_with_images, tmp_path / "a sandbox")
    yield runner
    runner.close()


def up(runner: SandboxRunner, **fields: Any) -> list[tuple[str, str]]:
    """Deploy with these fields of the pool, and return what was done."""
    paths: dict[tuple[str, ...], Any] = {("gpu-ci:pools", "a10g", name): value for name, value in fields.items()}
    _, done = runner.steps(*eks.UP, "--config-file", str(runner.stack_file("Pulumi.staging.yaml", paths)))
    return done


def node_group(runner: SandboxRunner) -> dict[str, Any]:
    [row] = [row for row in runner.world() if row["name"] == NODES]
    return dict(row["outputs"])


def test_an_image_is_promoted_checked_and_rolled_back(deployed: SandboxRunner) -> None:
    first, second = EXISTING
    done = up(deployed, amiId=first)
    assert ("create", TAG) in done
    assert ("create-replacement", NODES) in done
    assert done.index(("create-replacement", JOB)) > done.index(("create-replacement", NODES))
    assert node_group(deployed)["amiType"] == "CUSTOM"
    # The next image is an update in place, and its check runs again.
    done = up(deployed, amiId=second)
    assert ("update", NODES) in done
    assert ("create-replacement", JOB) in done
    # `git revert`.
    done = up(deployed, amiId=first)
    assert ("update", NODES) in done
