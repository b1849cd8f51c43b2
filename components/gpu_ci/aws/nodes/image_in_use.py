"""The tag by which an image pipeline knows that nodes use an image, so that it does not delete the image.

The lifecycle policy of EC2 Image Builder cannot tell whether a launch template names an image. It can exclude images
with a tag of an exact key and value (botocore 1.44.5, imagebuilder: LifecyclePolicyDetailExclusionRulesAmis). So each
node group tags the image that it uses, with a key of its own: the end of one use must not hide another use.
"""

from __future__ import annotations

from ... import naming

VALUE = "true"


def key(stack: str, pool: str) -> str:
    """Return the key of the tag that the pool of a stack sets. A key has at most 128 characters."""
    return f"gpu-ci-in-use-{naming.fit(f'{stack}-{pool}', 100)}"
