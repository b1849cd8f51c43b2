"""The group `gpu-ci deploy`."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

_MODULES = {
    "plan": ("gpu_ci.cli.deploy.plan", "Show which bad canaries the traffic can reveal, and how soon."),
    "judge": ("gpu_ci.cli.deploy.judge", "Decide whether a canary advances, holds or is rolled back."),
    "start": (
        "gpu_ci.cli.deploy.rollout:start",
        "Move the traffic of an endpoint to a new model step by step.",
    ),
    "watch": ("gpu_ci.cli.deploy.rollout:watch", "Continue the rollout of an endpoint."),
    "status": ("gpu_ci.cli.deploy.rollout:status", "Print the rollout of an endpoint and its deployed models."),
    "pause": ("gpu_ci.cli.deploy.rollout:pause", "Keep the traffic split of the open rollout."),
    "resume": ("gpu_ci.cli.deploy.rollout:resume", "Begin the step of a paused rollout again."),
    "rollback": ("gpu_ci.cli.deploy.rollout:rollback", "Give all traffic back to the stable model."),
    "cleanup": ("gpu_ci.cli.deploy.rollout:cleanup", "Undeploy models of earlier rollouts."),
}


@click.group("deploy", cls=Lazy, modules=_MODULES)
def command() -> None:
    """Roll out a model on a Vertex AI endpoint, or judge a canary that another controller rolls out.

    A canary is a new model with a part of the traffic. Errors exit with 1. Higher exit codes are results.

    \b
    Examples:
      gpu-ci deploy start projects/acme/locations/europe-west4/endpoints/7001 scan@4 --settings rollout.yaml
      gpu-ci deploy judge minutes.jsonl
    """
