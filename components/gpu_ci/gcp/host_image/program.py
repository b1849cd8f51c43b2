"""Creates the steps of the build in Cloud Build, and the archive with the modules that these steps run.

The steps install the libraries of requirements.lock, by their hashes, and then run gpu_ci.gcp.host_image.
"""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from ... import versions
from ..build_program import BuildProgram

_PROGRAM = BuildProgram("gcp/host_image", ("api", "build", "settings"))
_PACKAGES = "/workspace/packages"

files, digest = _PROGRAM.files, _PROGRAM.digest


def archive() -> pulumi.AssetArchive:
    """Return the archive, which Cloud Build unpacks into /workspace."""
    return pulumi.AssetArchive({path: pulumi.StringAsset(text) for path, text in sorted(files().items())})


def steps(settings: pulumi.Input[str]) -> list[gcp.cloudbuild.TriggerBuildStepArgs]:
    """Return the steps: install the libraries, build the image, check it."""
    install = ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]
    return [
        _step("install", [*install, "--target", _PACKAGES, "--requirement", f"/workspace/{_PROGRAM.lock}"]),
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
