"""One mistake in the arguments of an image pipeline is one problem with one hint."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.aws.gpu_ami_pipeline import GpuAmiPipelineArgs

from tests.gpu_ci.aws.image.image_pipelines import DIGEST, PUBLIC, problems

KEY_ELSEWHERE = "arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"),
    [
        ({"images": []}, "images", "needs at least one", ""),
        (
            {"images": ["ghcr.io/acme/cuda-runner:2.336.0"]},
            "images[0]",
            "has no digest, and its tag can point to another, unchecked image later",
            "docker buildx imagetools inspect <image> prints the digest; add it after the tag: :2.336.0@sha256:…",
        ),
        (
            {"images": [PUBLIC, f"ghcr.io/acme/cuda-runner@{DIGEST}"]},
            "images[1]",
            "is the same image as images[0]",
            "remove it",
        ),
        (
            {"images": [f"ghcr.io/{'long/' * 150}{at}@{DIGEST}" for at in range(10)]},
            "images",
            "are too long for one component of Image Builder",
            "list fewer images",
        ),
        ({"architecture": "amd64"}, "architecture", "must be one of 'x86_64' or 'arm64'", ""),
        (
            {"instance_types": ["m7i.large"]},
            "instanceTypes[0]",
            "is not an EC2 instance type with an NVIDIA GPU, which the test of the driver needs",
            "such as g4dn.xlarge",
        ),
        (
            {"instance_types": ["g5g.xlarge"]},
            "instanceTypes[0]",
            "is arm64, but the image is for x86_64",
            "such as g4dn.xlarge",
        ),
        (
            {"instance_types": ["g4dn.xlarge", "g4dn.xlarge"]},
            "instanceTypes[1]",
            "is a duplicate",
            "remove it",
        ),
        ({"disk_gib": 20}, "diskGib", "must be at least 30", ""),
        (
            {"kms_key_arn": KEY_ELSEWHERE},
            "kmsKeyArn",
            "is a key of another region than the disks",
            "a key of us-east-1",
        ),
        (
            {"schedule": "0 6 * * 1"},
            "schedule",
            "is not a schedule of Image Builder",
            "such as cron(0 6 ? * MON *)",
        ),
        (
            {"schedule": "cron(0 6 * * MON *)"},
            "schedule",
            "needs ? for either the day or the weekday",
            "such as cron(0 6 ? * MON *)",
        ),
        ({"keep": 1}, "keep", "must be at least 2", ""),
        ({"keep_launched_days": 366}, "keepLaunchedDays", "must be at most 365", ""),
        ({"used_by": ["a10g"]}, "usedBy[0]", "has a form that is not accepted", ""),
        (
            {"used_by": [f"prod/{at}" for at in range(50)], "pools": ["a10g"]},
            "usedBy",
            "are more than 50 pools with those of this stack",
            "use a pipeline of their own for some",
        ),
        ({"skip": ["sha256:abc"]}, "skip[0]", "has a form that is not accepted", ""),
        (
            {"parentImage": "ami-0123456789abcdef0"},
            "parentImage",
            "cannot be set",
            "remove it: the base is EKS's newest AL2023 image with NVIDIA driver for the cluster's version",
        ),
        ({"imagez": [PUBLIC]}, "imagez", "unknown key", "did you mean images"),
    ],
)
def test_one_mistake_is_one_problem_with_one_hint(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    (found,) = problems(**changes)
    assert (found.path, found.text, found.hint) == (path, text, hint)


def test_an_empty_list_holds_no_secret_and_is_shown() -> None:
    (found,) = problems(images=[])
    assert found.got == "a list"


@pytest.mark.parametrize("name", ["region", "kubernetesVersion", "subnetId", "vpcId", "pools", "tags"])
def test_what_the_cluster_sets_is_no_field_of_a_stack_file(name: str) -> None:
    (found,) = GpuAmiPipelineArgs.choice_problems({"clusterName": "ci", "images": [PUBLIC], name: "x"})
    assert (found.path, found.text) == (name, "is set by gpu-ci, not in a stack file")
