"""The command `gpu-ci` and the list of its subcommands.

A subcommand is imported when it is called, so that `gpu-ci --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from gpu_ci.cli.lazy import Lazy


class Commands(Lazy):
    """The commands of `gpu-ci`, each with its module and one line of help."""

    COMMANDS: Mapping[str, tuple[str, str]] = {
        "init": ("gpu_ci.cli.init.command", "Write the files of a new repository that deploys pools."),
        "new-project": (
            "gpu_ci.cli.new_project.command",
            "Write a new Python project with tests on CPUs and on the GPUs of a pool.",
        ),
        "github-app": (
            "gpu_ci.cli.github_app.command",
            "Create the GitHub Apps of a stack, and store their keys in Secret Manager.",
        ),
        "catalog": (
            "gpu_ci.cli.catalog.command",
            "List machine types with GPUs; show one with every fact and its source.",
        ),
        "recommend": ("gpu_ci.cli.recommend", "Recommend machines for a job, cheapest first, with reasons."),
        "check": ("gpu_ci.cli.check.command", "Check stack files, or one machine with a driver and torch."),
        "cost": ("gpu_ci.cli.cost", "Show the cost of the pools of stack files."),
        "quota": ("gpu_ci.cli.quota", "Show the quotas that the pools of stack files need."),
        "images": ("gpu_ci.cli.images.command", "List outdated images, runners and drivers of stack files."),
        "preview": (
            "gpu_preview.cli.preview_command",
            "Preview the changes of a pull request, without a cloud account.",
        ),
        "preview-comment": ("gpu_preview.cli.comment_command", "Post the report of a preview on the pull request."),
        "strip-state": (
            "gpu_preview.cli.strip_state_command",
            "Remove the secrets from an exported state, to preview against it.",
        ),
        "drift": ("gpu_preview.cli.drift_command", "Find resources that differ from the state of their stacks."),
        "manager": (
            "gpu_manager.cli.command",
            "Start a machine for each queued job, and delete it when the job has ended.",
        ),
        "explain": ("gpu_manager.cli.explain_command", "Explain why a queued job has no machine, and what to do."),
        "status": ("gpu_ci.cli.status", "Show the pools of a deployed stack, from its outputs."),
        "doctor": (
            "gpu_ci.cli.doctor.command",
            "Check the real environment of a stack file before `pulumi up`, and print what fixes each failure.",
        ),
        "zipapp": ("gpu_ci.cli.zipapp", "Write gpu-smoke as one file, for any machine or container with torch."),
        "schema": ("gpu_ci.cli.schema", "Print the JSON Schema of stack files, for completion in editors."),
        "completion": ("gpu_ci.cli.completion", "Print a script that completes gpu-ci in your shell."),
    }

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # The reader closed the pipe, such as `| head`. Click would exit with 1.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="gpu-ci", message="%(prog)s %(version)s")
def gpu_ci() -> None:
    """GPU capacity for CI: find machine types with GPUs, check stack files, and compute cost and quotas.

    Only `manager` creates or deletes cloud resources. Only `manager`, `doctor` and `verify` need a cloud
    account. Every command takes --json, which also prints errors as JSON.

    The exit code is 0 for success, 1 for problems in the files, and 2 for a wrong command line or a missing file.
    `preview` and `drift` have other exit codes: see their --help.

    \b
    Examples:
      gpu-ci catalog --gpu l4 --region us-central1
      gpu-ci recommend --gpu-memory-gib 24 --dtype bf16 --market spot
      gpu-ci check Pulumi.staging.yaml
      gpu-ci cost
    """
