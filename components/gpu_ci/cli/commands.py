"""The commands there are. Only the one that is called is imported, so that `gpu-ci --help` is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from gpu_ci.cli.lazy import Lazy


class Commands(Lazy):
    """What `gpu-ci` can do."""

    COMMANDS: Mapping[str, tuple[str, str]] = {
        "catalog": (
            "gpu_ci.cli.catalog.command",
            "Machines with GPUs: list them, show one with every fact and its source.",
        ),
        "recommend": ("gpu_ci.cli.recommend", "Machines for what a job needs, cheapest first, with reasons."),
        "check": ("gpu_ci.cli.check.command", "Whether stack files, or one machine with a driver and torch, can work."),
        "cost": ("gpu_ci.cli.cost", "What the pools of stack files cost."),
        "quota": ("gpu_ci.cli.quota", "What the pools of stack files take of each quota."),
        "preview": (
            "gpu_preview.cli.preview_command",
            "What a pull request would change, found out without an account.",
        ),
        "preview-comment": ("gpu_preview.cli.comment_command", "Put its report on the pull request."),
        "strip-state": (
            "gpu_preview.cli.strip_state_command",
            "An exported state without its secrets, to preview against.",
        ),
        "drift": ("gpu_preview.cli.drift_command", "What exists that is not as the stacks left it."),
        "manager": (
            "gpu_manager.cli.command",
            "Start a machine for each queued job, and delete it when the job has ended.",
        ),
        "explain": ("gpu_manager.cli.explain_command", "Why a queued job has no machine, and what to do."),
        "status": ("gpu_ci.cli.status", "The pools of a stack that is up, at a glance, from its outputs."),
        "verify": (
            "gpu_ci.cli.verify.command",
            "Whether a real project, cluster or GPU machine is ready: the read-only part of the first-run checklist.",
        ),
        "zipapp": ("gpu_ci.cli.zipapp", "The check as one file, for any machine or container with torch."),
        "schema": ("gpu_ci.cli.schema", "The JSON Schema of stack files, so that editors complete them."),
        "completion": ("gpu_ci.cli.completion", "Print a script that completes gpu-ci in your shell."),
    }

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # whoever reads our output has enough of it; click would call that a failure
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="gpu-ci", message="%(prog)s %(version)s")
def gpu_ci() -> None:
    """GPU capacity for CI: which machines there are, what fits, what works together, what it costs.

    Only `manager` creates or deletes anything in a cloud, and only it and `verify` need an account. Every command takes
    --json, and then reports mistakes as JSON too. The exit code is 0 when all is fine, 1 when problems were found, 2
    when the question itself is wrong; `preview` and `drift` say more by it, and end with 1 for a wrong question too.

    \b
    Examples:
      gpu-ci catalog --gpu l4 --region us-central1
      gpu-ci recommend --gpu-memory-gib 24 --dtype bf16 --market spot
      gpu-ci check Pulumi.staging.yaml
      gpu-ci cost
    """
