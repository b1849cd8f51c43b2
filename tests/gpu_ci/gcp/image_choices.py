"""Choices for a container image pipeline: the example with a change in it, and the problem of each mistake."""

from __future__ import annotations

import copy
from typing import Any

from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline

EXAMPLE = ContainerImagePipeline.EXAMPLE
DIGEST = "sha256:" + "a" * 64


def pipeline(**changes: Any) -> dict[str, Any]:
    """The example after these changes; None removes a key."""
    choices = {"kind": "container", **copy.deepcopy(EXAMPLE), **changes}
    return {key: value for key, value in choices.items() if value is not None}


def source(**changes: Any) -> dict[str, Any]:
    return pipeline(source={**EXAMPLE["source"], **changes})


def image(**changes: Any) -> dict[str, Any]:
    return pipeline(build={**EXAMPLE["build"], **changes})


KEY = "projects/example-ci/locations/us-central1/keyRings/images/cryptoKeys/signer"
KEY_VERSION = f"{KEY}/cryptoKeyVersions/1"


def sign(**changes: Any) -> dict[str, Any]:
    """The example with a signature after these changes; None removes a key."""
    choices = {"kmsKeyVersion": KEY_VERSION, **changes}
    return pipeline(sign={key: value for key, value in choices.items() if value is not None})


EXAMPLE_DIGEST = "sha256:4bcfbc3e1b210f36ac1a8c4f5ec9c1bb1b5a9e4b1a6f2a9d3c0e7f8a6b5c4d3e"
NO_KEY_VERSION = "is not a version of a Cloud KMS key"
MONDAY = "such as 0 4 * * 1, which is Monday at 04:00 UTC"
FORM = "has a form that is not accepted"
