"""A pool that registers runners: what its machines may read, what waits for what, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool

from tests.gpu_ci.gcp.machine.test_agent_config import GITHUB
from tests.gpu_ci.gcp.test_runner_pool import PROJECT, SUBNETWORK, pool
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

SECRET = "projects/example-ci/secrets/registry-token"


def problems(**choices: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ArgsError) as caught:
        RunnerPoolArgs(**{**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK, **choices})
    return [(problem.path, problem.text, problem.hint) for problem in caught.value.problems]


def test_the_template_waits_for_a_group_that_is_made_with_it() -> None:
    def program() -> None:
        group = pulumi.ComponentResource("test:index:Group", "group")
        name = pulumi.Output.from_input("gpu").apply(lambda text: text)
        named = pulumi.Output({group}, name.future(), name.is_known(), name.is_secret())
        choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
        RunnerPool("l4", RunnerPoolArgs(**choices, github={**GITHUB, "runnerGroup": named}))

    template = deploy(program, computed=COMPUTED).one(":RegionInstanceTemplate")
    assert json.loads(template.inputs["metadata"]["gpu-agent-config"])["github"]["runner_group"] == "gpu"


def test_a_secret_where_it_would_be_readable_is_refused() -> None:
    def program() -> None:
        owner = pulumi.Output.secret("acme")
        choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
        RunnerPool("l4", RunnerPoolArgs(**choices, github={**GITHUB, "owner": owner}))

    message = r"RunnerPool 'l4': github.owner: is a secret, but this field is stored in plain text"
    with pytest.raises(ArgsError, match=message):
        deploy(program, computed=COMPUTED)


def test_secrets_are_for_pools_that_register_nothing_or_have_rootful_docker() -> None:
    assert len(pool(secrets=[SECRET]).of(":SecretIamMember")) == 1
    assert len(pool(github=GITHUB, secrets=[SECRET], runner={"docker": "rootful"}).of(":SecretIamMember")) == 2


def test_an_arm_machine_gets_the_runner_for_it() -> None:
    arm = {"machineType": "a4x-highgpu-4g", "zones": ["us-central1-a"], "market": "reservation", "reservation": "gpus"}
    image = "projects/acme-ci/global/images/gpu"
    found = problems(**arm, image=image, runner={"version": "2.337.0", "sha256": {"x64": "a" * 64}})
    assert ("runner.sha256", "has no checksum for arm64, which a4x-highgpu-4g needs", "add arm64") in found
