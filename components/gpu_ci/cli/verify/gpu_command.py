"""`gpu-ci verify gpu`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpu_ci.cli.verify import gpu
from gpu_ci.cli.verify.command import as_json, output_option, verify


@click.command("gpu")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="The expected number of GPUs.")
@click.option(
    "--python", default=sys.executable, metavar="PATH", help="The Python with torch; by default the Python of gpu-ci."
)
@output_option("gpu")
@as_json
def command(gpus: int, python: str, output: Path, as_json: bool) -> None:
    """Check the GPUs of this machine: the driver, gpu-smoke's diagnosis, and its profiles quick and standard.

    \b
    Examples:
      gpu-ci verify gpu
      gpu-ci verify gpu --gpus 8 --python .venv-torch/bin/python
    """
    verify("gpu", gpu.STEPS, gpu.GpuMachine(python, gpus), output, as_json)
