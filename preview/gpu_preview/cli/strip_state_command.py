"""`gpu-ci strip-state`: an exported state that may be handed to a job without a key."""

from __future__ import annotations

from typing import TextIO

import click
from gpu_ci.cli.output import ProblemsFound, note

from .exit_codes import ReportCommand


@click.command("strip-state", cls=ReportCommand)
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
@click.option("--json", is_flag=True, expose_value=False, help="Tell mistakes as JSON too; a state is JSON anyway.")
def command(file: TextIO) -> None:
    """Print an exported state without its secrets, encrypted or not, for `gpu-ci preview --against-state`.

    What is no secret in the state stays, such as names of projects and networks: whoever gets the file reads it. So
    does a secret that nothing marks as one, and that is a part of a longer text.

    The exit code is 0, or 1 where the input is no exported state or cannot be read.

    \b
    Examples:
      pulumi stack export --stack prod | gpu-ci strip-state > prod.json
    """
    from gpu_preview.engine.exported_state import StateError, strip
    from gpu_preview.phrases import number

    try:
        state = strip(file.read())
    except StateError as error:
        raise ProblemsFound(f"gpu-ci strip-state: {file.name}: {error}", [{"text": str(error)}]) from None
    click.echo(state.text)
    note(f"gpu-ci strip-state: {number(state.secrets, 'secret')} taken out")
