"""The group `gpu-ci deploy`."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

_MODULES = {
    "plan": ("gpu_ci.cli.deploy.plan", "Show which bad canaries the traffic can reveal, and how soon."),
    "judge": ("gpu_ci.cli.deploy.judge", "Decide whether a canary advances, holds or is rolled back."),
}


@click.group("deploy", cls=Lazy, modules=_MODULES)
def command() -> None:
    """Compare a canary, which is a new model with a part of the traffic, with the stable model.

    Errors exit with 1. Higher exit codes are verdicts.

    \b
    Examples:
      gpu-ci deploy plan last-hour.jsonl
      gpu-ci deploy judge minutes.jsonl
    """
