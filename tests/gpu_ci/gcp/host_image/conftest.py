"""Arguments of a pipeline for host images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.gcp.host_image_pipeline import HostImagePipeline, HostImagePipelineArgs

from tests.gpu_ci.gcp.host_image.project import Project, project_in_sandbox


@pytest.fixture
def host_image_args() -> HostImagePipelineArgs:
    wiring = {"project": "acme-ci", "subnetwork": "projects/acme-ci/regions/us-central1/subnetworks/ci"}
    return HostImagePipelineArgs(**HostImagePipeline.EXAMPLE, **wiring)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    yield from project_in_sandbox(tmp_path, monkeypatch)
