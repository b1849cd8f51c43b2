"""Candidates, promotion and rollback of images of EKS nodes, with AWS's SDK and the Image Builder of the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.aws import resource_names
from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks.api import AwsServer, EksApi
from pulumi_sandbox.world.store import Fault, Record, World

from tests.gpu_ci.cli.conftest import Ask

ARN = "arn:aws:imagebuilder:us-east-1:123456789012"
RECIPE, PIPELINE = f"{ARN}:image-recipe/staging-nodes/1.0.7", f"{ARN}:image-pipeline/staging-nodes"
DISTRIBUTION = f"{ARN}:distribution-configuration/nodes"
DIGEST = f"sha256:{'a1' * 32}"
STACK = f"""\
config:
  gpu-ci:clusters:
    ci: {{region: us-east-1, subnets: {{us-east-1a: subnet-0123456789abcdef0}}}}
  gpu-ci:images:
    nodes:
      kind: ami
      clusterName: ci
      images: [ghcr.io/acme/cuda-runner@{DIGEST}]
  gpu-ci:pools:
    a10g:
      kind: eks-runners
      clusterName: ci
      instanceTypes: [g5.2xlarge]
      max: 2
      amiId: AMI  # written by gpu-ci images promote
      runner: {{image: ghcr.io/acme/cuda-runner@{DIGEST}}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "world.db")
    region = {"region": "us-east-1", "amiDistributionConfiguration": {"name": "n-{{ imagebuilder:buildDate }}"}}
    detail = {
        "action": {"type": "DELETE"},
        "filter": {"type": "COUNT", "value": 2},
        "exclusionRules": {"amis": {"tagMap": {resource_names.in_use_key("staging", "a10g"): resource_names.IN_USE}}},
    }
    for kind, identity, inputs in (
        (types.IMAGE_RECIPE, RECIPE, {"name": "staging-nodes", "version": "1.0.7"}),
        (types.IMAGE_DISTRIBUTION, DISTRIBUTION, {"name": "nodes", "distributions": [region]}),
        (
            types.IMAGE_PIPELINE,
            PIPELINE,
            {"name": "staging-nodes", "imageRecipeArn": RECIPE, "distributionConfigurationArn": DISTRIBUTION},
        ),
        (
            types.IMAGE_LIFECYCLE,
            f"{ARN}:lifecycle-policy/nodes",
            {
                "policyDetails": [detail],
                "resourceSelection": {"recipes": [{"name": "staging-nodes", "semanticVersion": "x.x.x"}]},
            },
        ),
    ):
        made.insert(Record(kind, identity, "nodes-pipeline", "", inputs))
    yield made
    made.close()


@pytest.fixture
def build(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that runs a build, with the fault with which it fails, and returns the AMI id or nothing."""
    server = AwsServer(0, EksApi(world))
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def run(failing: str = "") -> str:
        if failing:
            world.add_fault(Fault(failing, on="*pipeline*"))
        client = AwsClient("imagebuilder", Account("us-east-1"))
        answer = client.call("start_image_pipeline_execution", imagePipelineArn=PIPELINE)
        made = world.get(types.BUILT_IMAGE, answer["imageBuildVersionArn"])
        assert made is not None
        return str(made.outputs["amis"][0]["image"]) if made.outputs["amis"] else ""

    yield run
    server.close()


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.staging.yaml"


def pinned(stack: Path) -> str:
    [line] = [each for each in stack.read_text().splitlines() if "amiId" in each]
    return line.strip()


def test_only_an_image_that_passed_its_tests_is_promoted_and_the_comment_stays(
    build: Callable[..., str], stack: Path, ask: Ask
) -> None:
    first, second = build(), build()
    assert (build("check"), build("image")) == ("", "")
    stack.write_text(STACK.replace("AMI", first))
    found = ask("images", "promote", "nodes")
    assert found.code == 0, found.err
    assert pinned(stack) == f"amiId: {second}  # written by gpu-ci images promote"
    assert f"Pulumi.staging.yaml: a10g.amiId is now {second} (recipe 1.0.7)" in found.out
    again = ask("images", "promote")
    assert again.out == "nodes: no pool names an older image than the newest candidate that passed\n"


def test_the_candidates_have_their_check_and_the_pools_that_use_them(
    build: Callable[..., str], stack: Path, ask: Ask
) -> None:
    ami = build()
    build("check")
    stack.write_text(STACK.replace("AMI", ami))
    [document] = ask("images", "candidates", "--json").json
    [pipeline] = document["pipelines"]
    assert [(each["name"], each["reference"], each["check"], each["pools"]) for each in pipeline["candidates"]] == [
        ("1.0.7/2", "", "failed", []),
        (ami, ami, "passed", ["Pulumi.staging.yaml: a10g.amiId"]),
    ]
    assert pipeline["notes"] == []


def test_a_pool_of_another_stack_needs_an_entry_in_used_by(
    build: Callable[..., str], stack: Path, ask: Ask, tmp_path: Path
) -> None:
    ami = build()
    text = STACK.replace("AMI", ami)
    stack.write_text(text)
    images, pools = text.index("  gpu-ci:images"), text.index("  gpu-ci:pools")
    (tmp_path / "Pulumi.prod.yaml").write_text(text[:images] + text[pools:])

    def notes() -> list[str]:
        documents = ask("images", "candidates", "--json").json
        return [note for each in documents for pipeline in each["pipelines"] for note in pipeline["notes"]]

    assert notes() == [
        (
            "Pulumi.prod.yaml: a10g.amiId names an image that the clean-up of nodes may delete; hint: add prod/a10g to "
            "usedBy of gpu-ci:images.nodes in Pulumi.staging.yaml"
        )
    ]
    stack.write_text(text.replace("      kind: ami\n", "      kind: ami\n      usedBy: [prod/a10g]\n"))
    assert notes() == []


def test_a_pipeline_that_is_not_deployed_is_named(
    world: World, build: Callable[..., str], stack: Path, ask: Ask
) -> None:
    world.delete(types.IMAGE_PIPELINE, PIPELINE)
    stack.write_text(STACK.replace("AMI", "ami-0123456789abcdef0"))
    found = ask("images", "candidates")
    assert (found.code, "us-east-1 has no Image Builder pipeline staging-nodes" in found.err) == (2, True)


def test_a_refusal_of_aws_is_reported_with_the_actions(stack: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied:
        def __init__(self, *_: object) -> None:
            pass

        def call(self, *_: object, **__: object) -> dict[str, Any]:
            raise ApiError("AccessDeniedException", "not authorized")

    monkeypatch.setattr("gpu_ci.cli.images.amis.connect", Denied)
    stack.write_text(STACK.replace("AMI", "ami-0123456789abcdef0"))
    found = ask("images", "candidates")
    assert (found.code, "expected: imagebuilder:ListImagePipelines and" in found.err) == (2, True)
