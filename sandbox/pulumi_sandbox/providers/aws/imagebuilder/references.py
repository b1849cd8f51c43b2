"""Image Builder's refusals because of a missing resource, a name in use, or a resource that another one uses.

The format of the messages, and that of a dependency: hashicorp/terraform-provider-aws#40037. Other texts are our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]
TYPES = (
    types.IMAGE_COMPONENT, types.IMAGE_RECIPE, types.BUILD_MACHINES, types.IMAGE_DISTRIBUTION, types.IMAGE_PIPELINE,
    types.IMAGE_LIFECYCLE,
)  # fmt: skip
# The inputs of a pipeline that are ARNs of other resources.
OF_PIPELINE = {
    "imageRecipeArn": types.IMAGE_RECIPE,
    "infrastructureConfigurationArn": types.BUILD_MACHINES,
    "distributionConfigurationArn": types.IMAGE_DISTRIBUTION,
}


def missing_references(world: World, token: str, inputs: Inputs) -> Iterator[str]:
    """Yield Image Builder's refusals because of a missing resource."""
    wanted: list[tuple[str, str]] = []
    if token == types.IMAGE_RECIPE:
        arns = [text_of(table(row), "componentArn") for row in rows(inputs.get("components"))]
        # Components of AWS and of other accounts are not in the world.
        wanted += [(types.IMAGE_COMPONENT, arn) for arn in arns if ":aws:component/" not in arn]
    elif token == types.IMAGE_PIPELINE:
        wanted += [(kind, text_of(inputs, name)) for name, kind in OF_PIPELINE.items()]
    elif token == types.BUILD_MACHINES:
        wanted.append((types.INSTANCE_PROFILE, text_of(inputs, "instanceProfileName")))
    for kind, identity in wanted:
        if identity and world.get(kind, identity) is None:
            text = f"InvalidParameterValueException: The {_kind(kind)} {identity} does not exist."
            yield refusal(token, inputs, text)


def refusal(token: str, inputs: Inputs, message: str) -> str:
    """Return the provider's error for a refused create."""
    start = f"creating Image Builder {_kind(token)} ({text_of(inputs, 'name')}): operation error imagebuilder: "
    return f"{start}Create{_kind(token)}, https response error StatusCode: 400, {message}"


def delete_blockers(world: World, token: str, arn: str) -> Iterator[str]:
    """Yield the refusal to delete a resource that a recipe or a pipeline names. Built images do not block it."""
    recipes = world.find(types.IMAGE_RECIPE) if token == types.IMAGE_COMPONENT else []
    used = [text_of(table(row), "componentArn") for recipe in recipes for row in rows(recipe.inputs.get("components"))]
    for name, kind in OF_PIPELINE.items():
        if kind == token:
            used += [text_of(pipeline.inputs, name) for pipeline in world.find(types.IMAGE_PIPELINE)]
    if arn in used:
        yield (
            f"deleting Image Builder {_kind(token)} ({arn}): operation error imagebuilder: Delete{_kind(token)}, https "
            "response error StatusCode: 400, ResourceDependencyException: Resource dependency error: The resource ARN "
            f"'{arn}' has other resources depended on it."
        )


def _kind(token: str) -> str:
    return token.rpartition(":")[2]
