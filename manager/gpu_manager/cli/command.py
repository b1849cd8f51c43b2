"""The group `gpu-ci manager`."""

from __future__ import annotations

import click

from .run_command import command as run
from .status_command import command as status


@click.group("manager")
def command() -> None:
    """Start a machine for each queued job, and delete it when the job has ended.

    The manager asks GitHub for queued jobs, starts machines on Compute Engine from the templates whose check passed,
    and deletes each that has ended. It needs no address of its own that others reach.

    \b
    Examples:
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager status
    """


command.add_command(run)
command.add_command(status)
