"""The build steps of an image pipeline: build, check on the CPU, and the tag of a candidate."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from ... import versions
from . import image_names
from .models import ImageBuild
from .steps import build_args, builder, docker_command

if TYPE_CHECKING:
    from pulumi_gcp.cloudbuild import TriggerBuildStepArgs as Step

# All steps of a build share the folder /workspace.
METADATA = "/workspace/.gpu-ci-image.json"
# Shell commands that set `digest` from the metadata file of buildx. The file is JSON with one key for each line.
DIGEST = r"""digest=$(sed -n 's/.*"containerimage\.digest": *"\(sha256:[0-9a-f]\{64\}\)".*/\1/p' "$METADATA")
if [ -z "$digest" ]; then echo "buildx wrote no digest to $METADATA" >&2; exit 1; fi
"""


def image_steps(build: ImageBuild, check: Sequence[str], registry: pulumi.Input[str]) -> list[Step]:
    """Return the steps of the build. Each runs only if the steps before it have passed.

    Args:
        build: The image.
        check: The command that checks the image, and its arguments.
        registry: The address of the pipeline's registry.
    """
    image = pulumi.Output.concat(registry, f"/{build.image}")
    return [
        builder(),
        _build(build, registry, image),
        _script("check", image, check_script(check)),
        _script("candidate", image, candidate_script()),
    ]


def check_script(check: Sequence[str]) -> str:
    """Return the script that runs the check in the pushed image.

    The container has no network, so the image cannot use the service account of the build.
    """
    command, *arguments = map(shlex.quote, check)
    run = f'docker run --rm --network none --entrypoint {command} "$IMAGE@$digest"'
    return f"{_head()}{DIGEST}exec {' '.join([run, *arguments])}\n"


def candidate_script() -> str:
    """Return the script that adds the tag of a candidate to the checked digest."""
    tag = image_names.tag(image_names.CANDIDATE, "$COMMIT_SHA", "$BUILD_ID")
    return f'{_head()}{DIGEST}exec docker buildx imagetools create --tag "$IMAGE:{tag}" "$IMAGE@$digest"\n'


def _head() -> str:
    return "#!/bin/sh\nset -eu\n"


def _build(build: ImageBuild, registry: pulumi.Input[str], image: pulumi.Output[str]) -> Step:
    tag = image_names.tag(image_names.BUILT, "$COMMIT_SHA", "$BUILD_ID")
    args = build_args(build, registry, writes_cache=True)
    args += ["--sbom=true", "--provenance=mode=max", "--metadata-file", METADATA]
    args += ["--tag", pulumi.Output.concat(image, f":{tag}"), "--push", build.context]
    return docker_command(args)


def _script(step: str, image: pulumi.Output[str], script: str) -> Step:
    """Return a step that runs a script. Cloud Build replaces substitutions in `env`, but not in a script."""
    return gcp.cloudbuild.TriggerBuildStepArgs(
        id=step,
        name=versions.DOCKER_IMAGE,
        script=script,
        envs=[
            pulumi.Output.concat("IMAGE=", image),
            f"METADATA={METADATA}",
            "COMMIT_SHA=$COMMIT_SHA",
            "BUILD_ID=$BUILD_ID",
        ],
    )
