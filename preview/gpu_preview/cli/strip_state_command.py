"""The command `gpu-ci strip-state`, which removes the secrets from an exported state."""

from __future__ import annotations

from typing import TextIO

import click
from gpu_ci.cli.output import ProblemsFound, note

from .options import ReportCommand


@click.command("strip-state", cls=ReportCommand)
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
@click.option("--json", is_flag=True, expose_value=False, help="Print errors as JSON, like the state.")
def command(file: TextIO) -> None:
    """Print an exported state without its secrets, encrypted or not, for `gpu-ci preview --against-state`.

    All other values stay readable, such as names of projects and networks. A secret inside a longer text also stays,
    unless Pulumi marks that text as secret.

    The exit code is 0, or 1 if the input is not an exported state or cannot be read.

    \b
    Examples:
      pulumi stack export --stack prod | gpu-ci strip-state > prod.json
    """
    from gpu_preview.engine.exported_state import strip
    from gpu_preview.errors import PreviewError
    from gpu_preview.phrases import number

    try:
        state = strip(file.read())
    except PreviewError as error:
        raise ProblemsFound(f"gpu-ci strip-state: {file.name}: {error}", [{"text": str(error)}]) from None
    click.echo(state.text)
    note(f"gpu-ci strip-state: {number(state.secrets, 'secret')} removed")
