"""Arguments of a pipeline for host images."""

from __future__ import annotations

import pytest
from gpu_ci.gcp.host_image_pipeline import HostImagePipeline, HostImagePipelineArgs


@pytest.fixture
def host_image_args() -> HostImagePipelineArgs:
    wiring = HostImagePipelineArgs.placeholder_wiring("us-central1", {})
    return HostImagePipelineArgs(**HostImagePipeline.EXAMPLE, **wiring)
