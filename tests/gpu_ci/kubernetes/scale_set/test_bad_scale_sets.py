"""One mistake in a runner scale set is one problem: at its path, with its cause and its way out."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError, Problem
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs

from tests.gpu_ci.support import CONTROLLER, scale_set_wiring

FORM = "has a form that is not accepted"
NO_DIGEST = "has no digest, and its tag can point to another, unchecked image later"
HOW = "docker buildx imagetools inspect <image> prints the digest; add it after the tag: :2.336.0@sha256:…"
DIND = "is not the 8 GPUs of the node: a privileged Docker daemon would see the GPUs of other pods"
WHOLE = "give each job all GPUs of the node, or use containerMode: {kind: kubernetes-novolume}"
NO_TOKEN = "a personal access token acts as its owner; set the App's id, installation and key under app"
URLS = "such as https://github.com/acme or https://github.com/acme/kernels"
TAGGED = "ghcr.io/acme/cuda-runner:2.336.0"


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"),
    [
        (
            {"githubConfigUrl": "http://github.com/acme"},
            "githubConfigUrl",
            "is not an https URL",
            "such as https://github.com/acme",
        ),
        (
            {"githubConfigUrl": "https://github.com"},
            "githubConfigUrl",
            "is not the URL of an organization, a repository or an enterprise",
            URLS,
        ),
        (
            {"githubConfigUrl": "https://github.com/acme/"},
            "githubConfigUrl",
            "has a path after the name",
            "end the URL with the organization or the repository",
        ),
        (
            {"githubConfigUrl": "https://me:pw@github.com/acme"},
            "githubConfigUrl",
            "contains a user name",
            "remove the text before @; the App is the only login",
        ),
        ({"runnerGroup": None}, "runnerGroup", "is missing", "set a group, such as groupName of a github.RunnerGroup"),
        (
            {"githubConfigUrl": "https://github.com/acme/web"},
            "runnerGroup",
            "is not supported for a repository, which has no runner groups",
            "remove it, or use the URL of the organization",
        ),
        ({"githubToken": "ghp_aaaaaaaa"}, "githubToken", "cannot be set", f"remove it: {NO_TOKEN}"),
        ({"scaleSetName": "g" * 46}, "scaleSetName", "must have at most 45 characters", "such as scaleSetName: gpu-l4"),
        ({"scaleSetName": "Gpu_L4"}, "scaleSetName", FORM, "such as scaleSetName: gpu-l4"),
        ({"scaleSetLabels": [""]}, "scaleSetLabels[0]", "must not be empty", ""),
        (
            {"scaleSetLabels": ["l4", "l4"]},
            "scaleSetLabels[1]",
            "is a duplicate",
            "remove it",
        ),
        ({"max": None}, "max", "is missing", "such as max: 4"),
        ({"minIdle": 5}, "minIdle", "is more than max, which is 4", "lower it, or raise max"),
        ({"image": TAGGED}, "image", NO_DIGEST, HOW),
        ({"image": "cuda-runner"}, "image", FORM, "such as image: ghcr.io/acme/cuda-runner@sha256:…"),
        (
            {"gpus": 2, "gpuResource": "nvidia.com/gpu.shared"},
            "gpuResource",
            "is a part of a GPU, and several parts give no more capacity",
            "set gpus: 1",
        ),
        ({"containerMode": {"kind": "dind", "nodeGpus": 8}}, "gpus", DIND, WHOLE),
        (
            {"containerMode": {"kind": "dind", "nodeGpus": 1}, "gpuResource": "nvidia.com/mig-1g.10gb"},
            "gpuResource",
            "is a part of a GPU, but a privileged Docker daemon sees the whole GPU",
            "remove it",
        ),
        (
            {"containerMode": {"kind": "docker"}},
            "containerMode.kind",
            "is not one of the choices",
            "such as kind: none",
        ),
        ({"containerMode": "kubernetes"}, "containerMode", "must be a map", "write it as {kind: kubernetes}"),
        ({"containerMode": "kubernets"}, "containerMode", "must be a map", "write it as {kind: kubernetes}"),
        ({"containerMode": 3}, "containerMode", "must be a map", "such as {kind: none}"),
        ({"containerMode": {"kind": "dind"}}, "containerMode.nodeGpus", "is missing", "such as nodeGpus: 1"),
        (
            {"containerMode": {"kind": "kubernetes", "workGib": 9}},
            "containerMode.storageClass",
            "is missing",
            "such as storageClass: gp3",
        ),
        (
            {"memoryGib": 2},
            "shmGib",
            "is not less than the memory, which is 2 GiB",
            "raise memoryGib, or lower shmGib",
        ),
        (
            {"jobStartedHook": "nvidia-smi"},
            "jobStartedHook",
            "does not start with the program that runs it",
            "start it with #!/usr/bin/env bash",
        ),
    ],
)
def test_one_mistake_is_one_problem_at_its_path(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    choices = {key: value for key, value in {**RunnerScaleSet.EXAMPLE, **changes}.items() if value is not None}
    [found] = RunnerScaleSetArgs.choice_problems(choices)
    assert (found.path, found.text, found.hint) == (path, text, hint)


@pytest.mark.parametrize(
    ("field", "value", "text", "hint"),
    [
        (
            "id",
            "ghp_hush",
            "is a personal access token",
            "create a GitHub App, and set its id, installation id and key",
        ),
        ("id", "my-app", "is not the id of a GitHub App", "the App's page shows its App ID and its Client ID"),
        (
            "installation_id",
            "acme",
            "is not the id of an installation",
            "use the number at the end of the installation's URL",
        ),
        (
            "private_key",
            "github_pat_hush",
            "is a personal access token",
            "create a GitHub App, and set its id, installation id and key",
        ),
        (
            "private_key",
            "-----BEGIN CERTIFICATE-----",
            "is not a private key",
            "use the whole .pem file from GitHub, including its first line",
        ),
    ],
)
def test_an_invalid_credential_of_an_app_is_refused_and_not_shown(field: str, value: str, text: str, hint: str) -> None:
    async def settle() -> tuple[Problem, ...]:
        wiring = scale_set_wiring()
        wiring["app"][field] = pulumi.Output.secret(value)
        try:
            await RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **wiring).settle()
        except ArgsError as error:
            return error.problems
        return ()

    [found] = asyncio.run(settle())
    assert (found.text, found.got, found.hint) == (text, "a value that is not shown, because it may be a secret", hint)


def test_a_plain_key_and_a_foreign_controller_are_refused_in_one_report() -> None:
    async def problems() -> list[tuple[str, str]]:
        wiring = scale_set_wiring()
        wiring["app"]["private_key"] = "-----BEGIN RSA PRIVATE KEY-----"
        wiring["controller"] = {**CONTROLLER, "version": "0.9.3"}
        try:
            RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **wiring)
        except ArgsError as error:
            return [(found.path, found.text.partition(",")[0]) for found in error.problems]
        return []

    assert asyncio.run(problems()) == [
        ("controller.version", "is a controller of another minor version"),
        ("app.privateKey", "must be a secret Output"),
    ]
