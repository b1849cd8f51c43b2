"""`gpu-ci zipapp`: writes gpu-smoke as one file, for a machine or container without this package."""

from __future__ import annotations

import base64
from pathlib import Path

import click

from gpu_ci.cli.output import InputError, print_json


@click.command("zipapp")
@click.option("--output", "-o", default="gpu_smoke.pyz", show_default=True, type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the path and the size as JSON.")
def command(output: str, as_json: bool) -> None:
    """Write gpu-smoke as one file that runs with any Python that has torch. The machines of pools run the same file.

    \b
    Examples:
      gpu-ci zipapp
      gpu-ci zipapp -o /tmp/gpu_smoke.pyz
      python3 gpu_smoke.pyz --profile standard
    """
    from gpu_ci.payload import smoke_archive

    data = base64.b64decode(smoke_archive())
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise InputError(f"{output}: cannot be written", got=error.strerror or str(error)) from None
    if as_json:
        print_json({"path": output, "bytes": len(data)})
    else:
        click.echo(f"{output}: {len(data) / 1000:.0f} kB; on a machine with torch, run: python3 {output} --help")
