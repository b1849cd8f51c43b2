"""Image pipelines for EKS nodes as the tests of this folder ask for them."""

from __future__ import annotations

from typing import Any

from gpu_ci.aws.gpu_ami_pipeline import GpuAmiPipeline, GpuAmiPipelineArgs
from gpu_ci.errors import ArgsError, Problem

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import AMI_WIRING, AWS_WIRING, COMPUTED

DIGEST = f"sha256:{'a1' * 32}"
PUBLIC = f"ghcr.io/acme/cuda-runner:2.336.0@{DIGEST}"
PRIVATE = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/ci/smoke@sha256:{'b2' * 32}"


def choices(**changes: Any) -> dict[str, Any]:
    """One public image and its wiring after these changes; None removes a key."""
    wiring = {key: value for key, value in AWS_WIRING.items() if key in GpuAmiPipelineArgs.model_fields}
    given = {"images": [PUBLIC], **wiring, **AMI_WIRING, **changes}
    return {key: value for key, value in given.items() if value is not None}


def args(**changes: Any) -> GpuAmiPipelineArgs:
    return GpuAmiPipelineArgs(**choices(**changes))


def problems(**changes: Any) -> tuple[Problem, ...]:
    """Return the problems of the arguments after these changes."""
    try:
        args(**changes)
    except ArgsError as error:
        return error.problems
    return ()


def pipeline(**changes: Any) -> Deployment:
    """Return the resources of a program with one pipeline."""
    return deploy(lambda: GpuAmiPipeline("nodes", args(**changes)), computed=COMPUTED)
