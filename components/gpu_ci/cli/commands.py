"""The command `gpu-ci` and the list of its subcommands, grouped by what a person wants to do.

A subcommand is imported when it is called, so that `gpu-ci --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from gpu_ci.cli import RESULTS_FROM_2
from gpu_ci.cli.lazy import Lazy

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start": {
        "init": ("gpu_ci.cli.init.command", "Write a new repository that deploys pools."),
        "github-app": ("gpu_ci.cli.github_app.command", "Create the GitHub Apps of a stack, and store their keys."),
        "new-project": ("gpu_ci.cli.new_project.command", "Write a Python project with tests on GPUs."),
        "job": ("gpu_manager.cli.job_command", "Run one job in the sandbox."),
        "schema": ("gpu_ci.cli.schema", "Print the JSON Schema of stack files, for editors."),
    },
    "Check": {
        "check": ("gpu_ci.cli.check.command", "Check stack files, or a machine with a driver and torch."),
        "catalog": ("gpu_ci.cli.catalog.command", "List machine types with GPUs, with prices and sources."),
        "cost": ("gpu_ci.cli.cost.command", "Show what pools cost, and report what was paid."),
        "quota": ("gpu_ci.cli.quota", "Show the quotas that the pools of stack files need."),
        "doctor": ("gpu_ci.cli.doctor.command", "Check the real environment before pulumi up."),
        "zipapp": ("gpu_ci.cli.zipapp", "Write gpu-smoke, the GPU check, as one file."),
    },
    "Review": {
        "preview": ("gpu_preview.cli.preview_command", "Preview a pull request, without a cloud account."),
        "preview-comment": ("gpu_preview.cli.comment_command", "Post the report of a preview on the pull request."),
        "drift": ("gpu_preview.cli.drift_command", "Find resources that differ from the state of a stack."),
    },
    "Operate": {
        "status": ("gpu_ci.cli.status", "Show the pools of a deployed stack."),
        "explain": ("gpu_manager.cli.explain_command", "Explain why a job waits, or how its machine ended."),
        "repro": ("gpu_manager.cli.repro_command", "Start a machine like that of a failed job."),
        "manager": ("gpu_manager.cli.command", "Start a machine for each queued job, and delete it."),
        "rented": ("gpu_manager.cli.rented_command", "Start, stop or list rented VMs, without a manager."),
        "jobs": ("gpu_ci.cli.jobs", "Collect the jobs of pools on clusters, for the cost report."),
        "monitoring": ("gpu_ci.cli.monitoring", "Print alerts for Prometheus, and dashboards."),
        "images": ("gpu_ci.cli.images.command", "Find outdated images, and promote new ones."),
        "train": ("gpu_ci.cli.train.command", "Run a training job on Vertex AI once for each run."),
        "deploy": ("gpu_ci.cli.deploy.command", "Roll out a model on Vertex AI, or judge one elsewhere."),
    },
}
"""The module and the line of help of each command."""


class Commands(Lazy):
    """The commands of `gpu-ci`."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # The reader closed the pipe, such as `| head`. Click would exit with 1.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(int(context.invoked_subcommand in RESULTS_FROM_2)) from None

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.modules))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, (_module, text) in commands.items()])


@click.group(
    cls=Commands,
    modules={name: command for group in GROUPS.values() for name, command in group.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="gpu-ci", message="%(prog)s %(version)s")
def gpu_ci() -> None:
    """\b
    GPU runners for CI. Every command has --help and --json.
    Exit codes: 0 success, 1 problems, 2 wrong input, or what its --help says.
    """
