"""Candidates, promotion and rollback of images of EKS nodes, with a fake client of Image Builder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_ci.aws.limits.eks_api import Account, ApiError

from tests.gpu_ci.cli.conftest import Ask

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


class ImageBuilder:
    """The client of Image Builder, with one pipeline."""

    def __init__(self) -> None:
        self.pipelines = [
            {"arn": "arn:aws:imagebuilder:us-east-1:1:image-pipeline/staging-nodes", "name": "staging-nodes"}
        ]
        self.images: list[dict[str, Any]] = []

    def __call__(self, service: str, account: Account) -> ImageBuilder:
        assert (service, account.region) == ("imagebuilder", "us-east-1")
        return self

    def call(self, method: str, **_: object) -> dict[str, Any]:
        if method == "list_image_pipelines":
            return {"imagePipelineList": self.pipelines}
        assert method == "list_image_pipeline_images"
        return {"imageSummaryList": self.images}

    def build(self, status: str = "AVAILABLE") -> str:
        """Add an image, and return its AMI, which a failed build does not have."""
        number = len(self.images) + 1
        ami = f"ami-{number:017x}" if status == "AVAILABLE" else ""
        self.images.append(
            {
                "version": f"1.0.7/{number}",
                "state": {"status": status},
                "dateCreated": f"2026-11-{number:02}T00:00:00Z",
                "outputResources": {"amis": [{"region": "us-east-1", "image": ami}] if ami else []},
            }
        )
        return ami


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> ImageBuilder:
    made = ImageBuilder()
    monkeypatch.setattr("gpu_ci.cli.images.amis.connect", made)
    return made


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.staging.yaml"


def pinned(stack: Path) -> str:
    [line] = [each for each in stack.read_text().splitlines() if "amiId" in each]
    return line.strip()


def test_only_an_image_that_passed_its_tests_is_promoted_and_the_comment_stays(
    builder: ImageBuilder, stack: Path, ask: Ask
) -> None:
    first, second = builder.build(), builder.build()
    builder.build("FAILED")
    stack.write_text(STACK.replace("AMI", first))
    found = ask("images", "promote", "nodes")
    assert found.code == 0, found.err
    assert pinned(stack) == f"amiId: {second}  # written by gpu-ci images promote"
    assert f"Pulumi.staging.yaml: a10g.amiId is now {second} (recipe 1.0.7)" in found.out
    again = ask("images", "promote")
    assert again.out == "nodes: no pool names an older image than the newest candidate that passed\n"


def test_the_candidates_have_their_check_and_the_pools_that_use_them(
    builder: ImageBuilder, stack: Path, ask: Ask
) -> None:
    ami = builder.build()
    builder.build("FAILED")
    stack.write_text(STACK.replace("AMI", ami))
    [document] = ask("images", "candidates", "--json").json
    [pipeline] = document["pipelines"]
    assert [(each["name"], each["reference"], each["check"], each["pools"]) for each in pipeline["candidates"]] == [
        ("1.0.7/2", "", "failed", []),
        (ami, ami, "passed", ["Pulumi.staging.yaml: a10g.amiId"]),
    ]
    assert pipeline["notes"] == []


def test_a_pool_of_another_stack_needs_an_entry_in_used_by(
    builder: ImageBuilder, stack: Path, ask: Ask, tmp_path: Path
) -> None:
    ami = builder.build()
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


def test_a_pipeline_that_is_not_deployed_is_named(builder: ImageBuilder, stack: Path, ask: Ask) -> None:
    builder.pipelines.clear()
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
