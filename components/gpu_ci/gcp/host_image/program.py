"""Creates the steps of the build in Cloud Build, and the archive with the modules that these steps run.

The steps install the libraries of build_program.lock, by their hashes, and then run gpu_ci.gcp.host_image.
"""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from ... import versions
from ..build_program import LOCK, PIP_INSTALL, BuildProgram

_PROGRAM = BuildProgram("gcp/host_image", ("api", "build", "settings"))
_PACKAGES = "/workspace/packages"

files, digest = _PROGRAM.files, _PROGRAM.digest


def steps(settings: pulumi.Input[str]) -> list[gcp.cloudbuild.TriggerBuildStepArgs]:
    """Return the steps: install the libraries, build the image, check it."""
    return [
        _step("install", [*PIP_INSTALL, "--target", _PACKAGES, "--requirement", f"/workspace/{LOCK}"]),
        *(_step(each, ["-m", "gpu_ci.gcp.host_image", each, "--settings", settings]) for each in ("build", "check")),
    ]


def _step(name: str, args: list[pulumi.Input[str]]) -> gcp.cloudbuild.TriggerBuildStepArgs:
    return gcp.cloudbuild.TriggerBuildStepArgs(
        id=name,
        name=versions.PYTHON_IMAGE,
        entrypoint="python",
        args=args,
        envs=[f"PYTHONPATH=/workspace:{_PACKAGES}", "PYTHONUNBUFFERED=1"],
    )
