"""The command group `gpu-ci manager`."""

from __future__ import annotations

import click

from .run_command import command as run
from .status_command import command as status


@click.group("manager")
def command() -> None:
    """Start a machine for each queued job, and delete the machine when the job has ended.

    The manager reads queued jobs from GitHub and starts machines on Compute Engine from templates whose check passed.
    It deletes each machine that has ended. It needs no address that other computers can reach.

    \b
    Examples:
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager status
    """


command.add_command(run)
command.add_command(status)
