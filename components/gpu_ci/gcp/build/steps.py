"""Converts the build steps of a stack file into steps of the Cloud Build API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from ... import versions
from .models import DockerStep, ImageBuild, RunStep

if TYPE_CHECKING:
    from pulumi_gcp.cloudbuild import TriggerBuildStepArgs as Step

_BUILDER = "gpu-ci"


def api_steps(
    steps: Sequence[DockerStep | RunStep], registry: pulumi.Input[str], *, pushes: bool, tagged: bool
) -> list[Step]:
    """Return the steps in the form of the API.

    Args:
        steps: The build steps of the stack file.
        registry: The address of the pool's registry.
        pushes: False for a build of a pull request, which reads the cache but pushes nothing.
        tagged: True for a build of a git tag. Its images also get the name of the tag.
    """
    found = [_docker(step, registry, pushes, tagged) if isinstance(step, DockerStep) else _run(step) for step in steps]
    return [builder(), *found] if any(isinstance(step, DockerStep) for step in steps) else found


def builder() -> Step:
    """Return a step that creates a builder of buildx. Later steps find it, because all steps share a home directory."""
    args: list[pulumi.Input[str]] = ["buildx", "create", "--name", _BUILDER, "--use", "--driver", "docker-container"]
    return docker_command([*args, "--driver-opt", f"image={versions.BUILDKIT_IMAGE}"])


def _docker(step: DockerStep, registry: pulumi.Input[str], pushes: bool, tagged: bool) -> Step:
    args = build_args(step, registry, writes_cache=pushes)
    for tag in ["$COMMIT_SHA", *(["$TAG_NAME"] if tagged else [])]:
        args += ["--tag", pulumi.Output.concat(registry, f"/{step.image}:{tag}")]
    args += ["--push"] if pushes else ["--output", "type=cacheonly"]
    return docker_command([*args, step.context])


def build_args(step: ImageBuild, registry: pulumi.Input[str], *, writes_cache: bool) -> list[pulumi.Input[str]]:
    """Return the arguments of `docker` that build the image, without tags, output and context."""
    cache = pulumi.Output.concat(registry, f"/cache/{step.image}")
    args: list[pulumi.Input[str]] = ["buildx", "build", "--file", step.dockerfile]
    args += ["--target", step.target] if step.target else []
    for name, value in sorted(step.build_args.items()):
        args += ["--build-arg", f"{name}={value}"]
    if step.cache:
        args += ["--cache-from", pulumi.Output.concat("type=registry,ref=", cache)]
    if step.cache and writes_cache:
        args += ["--cache-to", pulumi.Output.concat("type=registry,ref=", cache, ",mode=max")]
    return args


def docker_command(args: list[pulumi.Input[str]]) -> Step:
    return gcp.cloudbuild.TriggerBuildStepArgs(name=versions.DOCKER_IMAGE, entrypoint="docker", args=args)


def _run(step: RunStep) -> Step:
    return gcp.cloudbuild.TriggerBuildStepArgs(
        name=step.image,
        args=list(step.args),
        entrypoint=step.entrypoint,
        script=step.script,
        envs=[f"{name}={value}" for name, value in sorted(step.env.items())],
        dir=step.dir,
    )
