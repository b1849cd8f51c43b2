"""`gpu-ci images`: a group with the commands about the images of pipelines."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

MODULES = {
    "candidates": ("gpu_ci.cli.images.promote:candidates", "List the images that the pipelines built."),
    "promote": ("gpu_ci.cli.images.promote:promote", "Write the newest image that passed into the pools."),
}


@click.group("images", cls=Lazy, modules=MODULES)
def command() -> None:
    """Images that the pipelines of a stack built.

    \b
    Examples:
      gpu-ci images candidates
      gpu-ci images promote runner
    """
