"""The group `gpu-ci train`."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

_MODULES = {
    "submit": ("gpu_ci.cli.train.jobs:submit", "Submit the training job of this run, once."),
    "wait": ("gpu_ci.cli.train.jobs:wait", "Wait until a training job ends."),
    "cancel": ("gpu_ci.cli.train.jobs:cancel", "Cancel a training job."),
}


@click.group("train", cls=Lazy, modules=_MODULES)
def command() -> None:
    """Run a training job on Vertex AI from CI.

    Errors exit with 1. Higher exit codes are results.

    \b
    Examples:
      gpu-ci train submit projects/acme/locations/europe-west4 train.yaml
      gpu-ci train wait projects/acme/locations/europe-west4
      gpu-ci train cancel projects/acme/locations/europe-west4
    """
