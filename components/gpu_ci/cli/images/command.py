"""`gpu-ci images`: a group with the commands about images and the versions of their software."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

MODULES = {
    "outdated": ("gpu_ci.cli.images.outdated", "List the outdated pins of stack files, and replace them."),
    "candidates": ("gpu_ci.cli.images.promote:candidates", "List the images that the pipelines built."),
    "promote": ("gpu_ci.cli.images.promote:promote", "Write the newest image that passed into the pools."),
}


@click.group("images", cls=Lazy, modules=MODULES)
def command() -> None:
    """Images of pools, and the software in them.

    \b
    Examples:
      gpu-ci images outdated
      gpu-ci images outdated Pulumi.prod.yaml --write
      gpu-ci images candidates
      gpu-ci images promote runner
    """
