"""Image Builder's refusals because of a missing resource, a name in use, or a resource that another one uses.

The format of the messages: hashicorp/terraform-provider-aws#40037. The texts are our own, except for DEPENDENCY, which
is quoted from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]
NAMES = {
    types.IMAGE_COMPONENT: ("Component", "CreateComponent", "DeleteComponent"),
    types.IMAGE_RECIPE: ("Image Recipe", "CreateImageRecipe", "DeleteImageRecipe"),
    types.BUILD_MACHINES: (
        "Infrastructure Configuration", "CreateInfrastructureConfiguration", "DeleteInfrastructureConfiguration",
    ),
    types.IMAGE_DISTRIBUTION: (
        "Distribution Configuration", "CreateDistributionConfiguration", "DeleteDistributionConfiguration",
    ),
    types.IMAGE_PIPELINE: ("Image Pipeline", "CreateImagePipeline", "DeleteImagePipeline"),
    types.IMAGE_LIFECYCLE: ("Lifecycle Policy", "CreateLifecyclePolicy", "DeleteLifecyclePolicy"),
}  # fmt: skip
"""By type, the provider's word for it and the operations of the API."""

DEPENDENCY = "Resource dependency error: The resource ARN '{arn}' has other resources depended on it."

# The inputs of a pipeline that are ARNs of other resources.
OF_PIPELINE = {
    "imageRecipeArn": types.IMAGE_RECIPE,
    "infrastructureConfigurationArn": types.BUILD_MACHINES,
    "distributionConfigurationArn": types.IMAGE_DISTRIBUTION,
}


def missing(world: World, token: str, inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield the name and the kind of each resource of the inputs that does not exist."""
    if token == types.IMAGE_RECIPE:
        for row in rows(inputs.get("components")):
            arn = text_of(table(row), "componentArn")
            # Components of AWS and of other accounts are not in the world.
            if arn and ":aws:component/" not in arn and world.get(types.IMAGE_COMPONENT, arn) is None:
                yield arn, "component"
    if token == types.IMAGE_PIPELINE:
        for name, kind in OF_PIPELINE.items():
            arn = text_of(inputs, name)
            if arn and world.get(kind, arn) is None:
                yield arn, NAMES[kind][0].lower()
    if token == types.BUILD_MACHINES:
        profile = text_of(inputs, "instanceProfileName")
        if profile and world.get(types.INSTANCE_PROFILE, profile) is None:
            yield profile, "instance profile"


def missing_references(world: World, token: str, inputs: Inputs) -> Iterator[str]:
    """Yield Image Builder's refusals because of a missing resource."""
    for identity, kind in missing(world, token, inputs):
        yield refusal(token, inputs, f"InvalidParameterValueException: The {kind} {identity} does not exist.")


def refusal(token: str, inputs: Inputs, message: str) -> str:
    """Return the provider's error for a refused create."""
    word, operation, _ = NAMES[token]
    start = f"creating Image Builder {word} ({text_of(inputs, 'name')}): operation error imagebuilder: {operation}"
    return f"{start}, https response error StatusCode: 400, {message}"


def delete_blockers(world: World, token: str, arn: str) -> Iterator[str]:
    """Yield the refusal to delete a resource that a recipe or a pipeline names. Built images do not block it."""
    if token == types.IMAGE_COMPONENT:
        used = any(
            text_of(table(row), "componentArn") == arn
            for recipe in world.find(types.IMAGE_RECIPE)
            for row in rows(recipe.inputs.get("components"))
        )
    else:
        used = any(
            text_of(pipeline.inputs, name) == arn
            for pipeline in world.find(types.IMAGE_PIPELINE)
            for name, kind in OF_PIPELINE.items()
            if kind == token
        )
    if used:
        word, _, operation = NAMES[token]
        yield (
            f"deleting Image Builder {word} ({arn}): operation error imagebuilder: {operation}, https response error "
            f"StatusCode: 400, ResourceDependencyException: {DEPENDENCY.format(arn=arn)}"
        )
