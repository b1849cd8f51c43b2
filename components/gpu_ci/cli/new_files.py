"""Prints and writes the new files of `gpu-ci init` and `new-project`. An existing file is never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from gpu_ci.cli.output import InputError

# Pulumi's rule for the names of projects and stacks (pulumi/pulumi sdk/go/common/tokens/names.go, NameRegexp).
PULUMI_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def create(path: Path, text: str) -> None:
    """Write a file that does not exist, and its folder. Raise InputError if this fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written", got=error.strerror or str(error)) from None


def show(files: Mapping[str, str]) -> None:
    """Print each file with its indented text."""
    for path, text in files.items():
        indented = "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())
        click.echo(f"{click.style(path, bold=True)}\n{indented}")


def show_next_steps(steps: Sequence[str], written: bool, option: str) -> None:
    """Print the next steps of the user. `option` is the option of the command that writes the files."""
    click.echo("\nNext:" if written else f"\nNothing was written. Run the command again with {option}. Then:")
    for number, step in enumerate(steps, 1):
        click.echo(f"  {number}. {step}")
