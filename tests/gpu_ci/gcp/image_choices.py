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
WRONG: dict[str, tuple[Any, str, str, str]] = {
    "no kind": (pipeline(kind=None), ".kind", "is missing", "add kind: container"),
    "a kind misspelt": (pipeline(kind="contaner"), ".kind", "unknown kind of image pipeline", "did you mean container"),
    "text instead of a map": ("container", "", "must be a map",
                              "such as {kind: container, …}; to remove the image pipeline, delete its name, too"),
    "no region": (pipeline(region=None), ".region", "is missing", "such as region: us-central1"),
    "a zone for a region": (pipeline(region="us-central1-a"), ".region", "is not a region of Cloud Build",
                            "did you mean us-central1"),
    "a repository without an owner": (source(repository="images"), ".source.repository", FORM,
                                      "such as repository: acme/images"),
    "a branch that RE2 refuses": (
        source(branch="^(?!main)"), ".source.branch", "contains (?!, which RE2 does not support",
        "write a pattern of the refs to match; use includedFiles and ignoredFiles to limit the builds further",
    ),
    "an image below cache": (image(image="cache/gpu"), ".build.image", "is below cache/, which has the cached layers",
                             "such as image: gpu-runner"),
    "an image in upper case": (image(image="GPU"), ".build.image", FORM, "such as image: gpu-runner"),
    "a Dockerfile outside the repository": (
        image(dockerfile="../Dockerfile"), ".build.dockerfile", "is not a path inside the repository",
        "such as images/Dockerfile",
    ),
    "a context outside the repository": (image(context="/"), ".build.context", "is not a path inside the repository",
                                         "such as images"),
    "a build argument with a space": (
        image(buildArgs={"CUDA VERSION": "cu130"}), '.build.buildArgs["CUDA VERSION"]',
        "is no name of a build argument",
        "use letters, digits and underscores, as in ARG of the Dockerfile",
    ),
    "a token as a build argument": (
        image(buildArgs={"TOKEN": "ghp_" + "0" * 36}), ".build.buildArgs.TOKEN",
        "looks like a secret, and every reader of the image can read it",
        "remove it; let the image read secrets when it runs",
    ),
    "a field of the build misspelt": (image(dockerFile="Dockerfile"), ".build.dockerFile", "unknown key",
                                      "did you mean dockerfile"),
    "no check": (pipeline(check=[]), ".check", "needs at least one",
                 'such as check: [gpu-smoke, "--device", cpu]'),
    "a tag for a digest": (pipeline(skip=["v1"]), ".skip[0]", FORM, f"such as skip: [{EXAMPLE_DIGEST}]"),
    "a signature without a key": (
        sign(kmsKeyVersion=None), ".sign.kmsKeyVersion", "is missing",
        f"such as kmsKeyVersion: {KEY_VERSION.replace('example-ci', 'acme-ci')}",
    ),
    "a key without its version": (sign(kmsKeyVersion=KEY), ".sign.kmsKeyVersion", NO_KEY_VERSION,
                                  "add the version of the key, such as /cryptoKeyVersions/1"),
    "a key as cosign writes it": (sign(kmsKeyVersion=f"gcpkms://{KEY_VERSION}"), ".sign.kmsKeyVersion",
                                  NO_KEY_VERSION, "remove gcpkms://"),
    "the name of a key alone": (sign(kmsKeyVersion="signer"), ".sign.kmsKeyVersion", NO_KEY_VERSION,
                                "copy it from gcloud kms keys versions list"),
    "the latest cosign": (
        sign(cosignImage="gcr.io/projectsigstore/cosign:latest"), ".sign.cosignImage",
        "has no tag of one version, so another cosign could sign the next image",
        "such as gcr.io/projectsigstore/cosign:v3.1.3",
    ),
    "a field of the signature misspelt": (sign(kmsKeyversion="x"), ".sign.kmsKeyversion", "unknown key",
                                          "did you mean kmsKeyVersion"),
    "a key instead of a signature": (pipeline(sign=KEY_VERSION), ".sign", "must be a map",
                                   "leave sign out to get the default"),
    "a schedule in words": (pipeline(schedule="weekly"), ".schedule", "is not a schedule of Cloud Scheduler", MONDAY),
    "a day of the week that does not exist": (pipeline(schedule="0 4 * * 9"), ".schedule",
                                              "has 9 as the day of week", MONDAY),
    "a schedule for several branches": (
        {**source(branch="^release-.*$"), "schedule": "0 4 * * 1"}, ".schedule",
        "has no branch to build, because source.branch is ^release-.*$", "such as source: {branch: ^main$}",
    ),
    "cron": (pipeline(cron="0 4 * * 1"), ".cron", "cannot be set", "remove it: use schedule instead"),
    "a registry that keeps nothing": (pipeline(registry={"keepMostRecent": 0}), ".registry.keepMostRecent",
                                      "must be at least 1", "such as keepMostRecent: 10"),
    "a machine type of Compute Engine": (pipeline(machineType="e2-highcpu-8"), ".machineType",
                                         "must be one of 'E2_MEDIUM', 'E2_HIGHCPU_8' or 'E2_HIGHCPU_32'",
                                         "such as machineType: E2_HIGHCPU_8"),
    "platforms": (pipeline(platforms=["linux/arm64"]), ".platforms", "cannot be set",
                  "remove it: machines of Cloud Build are amd64, and an emulated build of torch takes hours"),
    "a field that the program sets": (pipeline(pinned=[]), ".pinned", "is set by gpu-ci, not in a stack file",
                                      "remove it"),
}  # fmt: skip
