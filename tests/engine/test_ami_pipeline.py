"""An image of EKS nodes with the real engine: built, tested, promoted to a pool, checked there, and rolled back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.aws.limits.eks_api import Account, AwsClient
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks.api import AwsServer, EksApi
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import BroughtUp, bring_up, copied, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

NODES, JOB, TAG = "a10g-nodes-nodes", "a10g-smoke-job", "a10g-nodes-image-in-use"
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


def build(runner: SandboxRunner, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the pipeline, and return the id of the AMI."""
    world = World(Workspace(runner.folder).world)
    server = AwsServer(0, EksApi(world))
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_CONFIG_FILE": str(runner.folder / "none"),
    }
    environment |= {"AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    try:
        [pipeline] = world.find(types.IMAGE_PIPELINE)
        client = AwsClient("imagebuilder", Account("us-east-1"))
        answer = client.call("start_image_pipeline_execution", imagePipelineArn=pipeline.id)
        image = world.get(types.BUILT_IMAGE, answer["imageBuildVersionArn"])
        assert image is not None
        return str(image.outputs["amis"][0]["image"])
    finally:
        server.close()
        world.close()


def up(runner: SandboxRunner, **fields: Any) -> list[tuple[str, str]]:
    """Deploy with these fields of the pool, or of the pipeline for `images`, and return what was done."""
    paths: dict[tuple[str, ...], Any] = {("gpu-ci:pools", "a10g", name): value for name, value in fields.items()}
    if "images" in fields:
        paths = {("gpu-ci:images", "nodes", "images"): fields["images"]}
    _, done = runner.steps(*eks.UP, "--config-file", str(runner.stack_file("Pulumi.staging.yaml", paths)))
    return done


def node_group(runner: SandboxRunner) -> dict[str, Any]:
    [row] = [row for row in runner.world() if row["name"] == NODES]
    return dict(row["outputs"])


def test_an_image_is_built_promoted_checked_and_rolled_back(
    deployed: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(deployed, monkeypatch)
    assert re.fullmatch(r"ami-0[0-9a-f]{16}", first)
    # The image changes no pool until a stack file names it.
    done = up(deployed, amiId=first)
    assert ("create", TAG) in done
    assert ("create-replacement", NODES) in done
    assert done.index(("create-replacement", JOB)) > done.index(("create-replacement", NODES))
    assert node_group(deployed)["amiType"] == "CUSTOM"
    # The next image is an update in place, and its check runs again.
    second = build(deployed, monkeypatch)
    done = up(deployed, amiId=second)
    assert ("update", NODES) in done
    assert ("create-replacement", JOB) in done
    # `git revert`.
    done = up(deployed, amiId=first)
    assert ("update", NODES) in done
    # With keep: 2, more builds delete the second image, but not the first, which the pool uses.
    later = [build(deployed, monkeypatch) for _ in range(2)]
    amis = [row["id"] for row in deployed.world() if row["type"] == types.AMI]
    assert amis == [first, *later]
