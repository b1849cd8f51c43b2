"""Image Builder in the sandbox: what it refuses, and that every resource of the component is accepted."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.aws.conftest import Amazon

ACCOUNT = "123456789012"
START = f"arn:aws:imagebuilder:us-east-1:{ACCOUNT}"
DOCUMENT = "schemaVersion: 1.0\nphases: [{name: build, steps: [{name: a, action: Reboot}]}]\n"
COMPONENT = {"name": "staging-Nodes_pull", "version": "1.0.7", "platform": "Linux", "data": DOCUMENT}


def recipe(component: str) -> dict[str, Any]:
    return {
        "name": "nodes",
        "version": "1.0.7",
        "parentImage": "ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        "components": [{"componentArn": component}],
    }


def test_the_id_of_a_component_is_the_arn_of_its_build_version(amazon: Amazon) -> None:
    made = amazon.make("aws:imagebuilder/component:Component", "pull", COMPONENT)
    assert made.id == f"{START}:component/staging-nodes-pull/1.0.7/1"
    assert made.outputs["arn"] == made.id


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"platform": "linux"}, "platform: expected platform to be one of"),
        ({"data": DOCUMENT + "#" * 16_000}, "data: data is too long (maxLength: 16000)"),
    ],
)  # fmt: skip
def test_a_component_that_image_builder_refuses_is_refused(amazon: Amazon, changes: dict[str, Any], text: str) -> None:
    given = {key: value for key, value in {**COMPONENT, **changes}.items() if value is not None}
    [problem] = amazon.problems("aws:imagebuilder/component:Component", given)
    assert problem.startswith(text)


def test_the_same_version_of_a_recipe_cannot_be_created_twice(amazon: Amazon) -> None:
    component = amazon.make("aws:imagebuilder/component:Component", "pull", COMPONENT)
    amazon.make("aws:imagebuilder/imageRecipe:ImageRecipe", "recipe", recipe(component.id))
    with pytest.raises(Refused, match=f"{START}:image-recipe/nodes/1.0.7 already exists"):
        amazon.make("aws:imagebuilder/imageRecipe:ImageRecipe", "again", recipe(component.id))


def test_the_tag_of_a_missing_image_is_refused(amazon: Amazon) -> None:
    tag = {"resourceId": "ami-0123456789abcdef0", "key": "a", "value": "true"}
    with pytest.raises(Refused, match=r"InvalidAMIID.NotFound: The image id '.ami-0123456789abcdef0.' does not exist"):
        amazon.make(types.TAG, "tag", tag)
    # An image that a lookup returns exists.
    made = amazon.make(types.TAG, "tag", {**tag, "resourceId": "ami-0a1b2c3d4e5f6071a"})
    assert made.id == "ami-0a1b2c3d4e5f6071a,a"
