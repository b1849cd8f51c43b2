"""Image pipelines of a stack file in the program: their wiring, outputs and prerequisites."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline
from gpu_ci.program.stack_warnings import prerequisites_of_builds

from tests.gpu_ci.program.stack import L4, config, load, site
from tests.gpu_ci.program.test_program import STACK, run

PIPELINE: dict[str, Any] = {"kind": "container", **ContainerImagePipeline.EXAMPLE}
COS = {
    **L4,
    "image": "projects/cos-cloud/global/images/family/cos-stable",
    "driver": {"source": "cos", "checkImage": "ghcr.io/acme/gpu@sha256:" + "1" * 64},
}


def test_a_pipeline_gets_the_project_the_labels_and_the_images_that_pools_name() -> None:
    settings = load(config({"cos": COS, "l4": L4}, **site(labels={"team": "ml"}), **{"gpu-ci:images": {"r": PIPELINE}}))
    [pipeline] = settings.pipelines
    wiring = pipeline.args.model_dump(include={"project", "labels", "pinned"})
    assert (pipeline.name, pipeline.kind) == ("r", "container")
    assert wiring == {"project": "example-ci", "labels": {"team": "ml"}, "pinned": [COS["driver"]["checkImage"]]}


def test_a_stack_without_pipelines_exports_none_and_one_with_them_exports_each() -> None:
    assert "images" not in run(config()).outputs[STACK]
    exported = run(config(**{"gpu-ci:images": {"runner": PIPELINE}})).outputs[STACK]["images"]
    registry = "us-central1-docker.pkg.dev/example-ci/images-runner-stack"
    runner = {name: exported["runner"][name] for name in ("kind", "region", "registry", "image")}
    assert runner == {
        "kind": "container",
        "region": "us-central1",
        "registry": registry,
        "image": f"{registry}/gpu-runner",
    }


@pytest.mark.parametrize("connected", [True, False])
def test_a_repository_of_the_first_generation_must_be_connected(connected: bool) -> None:
    resource = "projects/example-ci/locations/us-central1/connections/github/repositories/images"
    source = PIPELINE["source"] | ({"repositoryResource": resource} if connected else {})
    settings = load(config(**{"gpu-ci:images": {"runner": PIPELINE | {"source": source}}}))
    found = [each.partition(" must be ")[0] for each in prerequisites_of_builds(settings)]
    assert found == ([] if connected else ["gpu-ci:images.runner.source: acme/images"])
