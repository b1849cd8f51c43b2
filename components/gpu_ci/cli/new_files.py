"""Prints and writes the new files of `gpu-ci init`, `new-project` and `migrate`. An existing file is never changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from gpu_ci.cli.init.existing import State
from gpu_ci.cli.output import InputError, print_json, print_table

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


def offer(
    folder: Path,
    files: Mapping[str, str],
    states: Mapping[str, State],
    steps: Callable[[], Sequence[str]],
    *,
    title: str,
    write: bool,
    as_json: bool,
) -> None:
    """Write the new files if `write` is True. Print them, the changes that existing files need, and the next steps.

    Args:
        folder: The folder of the files.
        files: The text of each file, by path in the folder.
        states: The state of each file before anything is written.
        steps: Returns what the user has to do in the folder. It is called after the files were written.
        title: The line above the changes that existing files need.
        write: True to write the files.
        as_json: True to print everything as JSON.
    """
    if write:
        for path, text in files.items():
            if states[path].is_new:
                create(folder / path, text)
    changes = {path: state.diff for path, state in states.items() if state.diff}
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    change = [f"change {' and '.join(changes)} as printed above"] if changes else []
    everything = [*enter, *change, *steps()]
    if as_json:
        print_json({"written": write, "files": files, "changes": changes, "next": everything})
        return
    if not write:
        show(files)
    print_table(["file", "result"], [(path, states[path].result(write)) for path in files])
    if changes:
        click.echo(f"\n{title}:\n")
        click.echo("".join(changes.values()), nl=False)
    show_next_steps(everything, write, "--write")
